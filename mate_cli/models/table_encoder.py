"""What every network is: embeddings, layers and a pooler, told apart by the pattern of its attention."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from torch import nn

from mate_cli.attention.base import AttentionBackend, AttentionPattern
from mate_cli.attention.plan import AttentionPlan, Planner
from mate_cli.models.encoder_output import EncoderOutput
from mate_cli.models.layers.embeddings import TableEmbeddings
from mate_cli.models.layers.encoder import Encoder, EncoderLayer, LayerOptions, Pooler
from mate_cli.models.sizes import EncoderSize, encoder_size
from mate_cli.tokenization.layout import TOKEN_TYPES

if TYPE_CHECKING:
    from mate_cli.tokenization.layout import TableBatch

INITIAL_DEVIATION = 0.02
"""Of all weights before training, as in BERT."""


class TableEncoder(nn.Module):
    """A network over tables, with random weights until some are loaded.

    Args:
        size: a name in `SIZES`, or a size.
        pattern: what each head may see, made for the number of heads.
        attention: how it is computed, in all layers or in each; what the last one prepares is prepared ahead.
        vocab_size: word pieces.
        activation: of the feed-forward layers, by its name in transformers.
        hidden_dropout: after every dense layer and the embeddings.
        attention_dropout: on attention weights.
        gradient_checkpointing: recompute layers in the backward pass, to save memory.
        token_types: those that are embedded.
        lexical_features: read those of encodings that have them (`encoding.lexical_features`).

    Raises:
        ConfigError: there is no such size or activation, or the backend cannot compute the pattern.
    """

    layer_class: ClassVar[type[EncoderLayer]] = EncoderLayer
    """What the layers are."""

    max_tokens: int | None = None
    """Tokens of the longest input; None where any length will do."""

    shape_remedies: ClassVar[Mapping[str, str]] = {}
    """What to do when weights of another shape are loaded, by the first part of their name."""

    def __init__(
        self,
        size: str | EncoderSize,
        pattern: AttentionPattern,
        *,
        attention: AttentionBackend | Sequence[AttentionBackend],
        vocab_size: int = 30522,
        activation: str = "gelu",
        hidden_dropout: float = 0.1,
        attention_dropout: float = 0.1,
        gradient_checkpointing: bool = False,
        token_types: Collection[str] = tuple(TOKEN_TYPES),
        lexical_features: bool = False,
    ) -> None:
        super().__init__()
        self.size, self.pattern, self.activation = encoder_size(size), pattern, activation
        backends = attention if isinstance(attention, Sequence) else [attention] * self.size.num_layers
        for backend in backends:
            backend.supports(pattern, attention_dropout)
        self.planner = Planner(pattern, backends[-1])
        self.embeddings = TableEmbeddings(
            self.size, vocab_size, hidden_dropout, token_types=token_types, lexical_features=lexical_features
        )
        options = (LayerOptions(backend, activation, hidden_dropout, attention_dropout) for backend in backends)
        layers = (self.layer_class(self.size, own) for own in options)
        self.encoder = Encoder(layers, gradient_checkpointing=gradient_checkpointing)
        self.pooler = Pooler(self.size)
        self.apply(initialise)

    @property
    def patterns(self) -> Mapping[str, AttentionPattern]:
        """What may be seen, by the layers in which it may."""
        return {"all layers": self.pattern}

    def forward(self, batch: TableBatch) -> EncoderOutput:
        """Encode a batch; no work is spent on padding, whose states are zero."""
        plan = AttentionPlan(self.pattern, batch)
        states = plan.packing.unpack(self.encoder(self.embeddings(batch, plan.packing), plan))
        return EncoderOutput(states, self.pooler(states), batch)


def initialise(module: nn.Module) -> None:
    """Draw the weights of a dense or embedding layer from a truncated normal; biases are zero."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        bound = 2 * INITIAL_DEVIATION
        nn.init.trunc_normal_(module.weight, std=INITIAL_DEVIATION, a=-bound, b=bound)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
