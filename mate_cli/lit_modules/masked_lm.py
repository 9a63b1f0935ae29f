"""Pre-training: tell the word pieces that are masked in a table and in what is said of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from mate_cli.lit_modules.base import TableTask, TaskSpec
from mate_cli.metrics.accuracy import masked_scores
from mate_cli.metrics.specs import Metric
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, TaskContext, initialise
from mate_cli.models.layers.embeddings import LAYER_NORM_EPSILON
from mate_cli.models.layers.encoder import find_activation
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableBatch


class MaskedLMHead(nn.Module):
    """Scores every word piece of the vocabulary by the embeddings that the network reads; parameters as in BERT.

    Source: Devlin et al. 2019; google-research/tapas, `tapas_pretraining_model.get_masked_lm_output`.
    """

    transformers_names: ClassVar[Mapping[str, str]] = {
        "dense.weight": "cls.predictions.transform.dense.weight",
        "dense.bias": "cls.predictions.transform.dense.bias",
        "LayerNorm.weight": "cls.predictions.transform.LayerNorm.weight",
        "LayerNorm.bias": "cls.predictions.transform.LayerNorm.bias",
        "bias": "cls.predictions.bias",
    }
    """Our parameters, and what they are called there."""

    def __init__(self, hidden_size: int, vocab_size: int, activation: str = "gelu") -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)
        initialise(self.dense)
        self.activation = find_activation(activation)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=LAYER_NORM_EPSILON)
        self.bias = nn.Parameter(self.dense.weight.new_zeros(vocab_size))

    def forward(self, states: Tensor, words: Tensor) -> Tensor:
        """Score masked pieces: their states [M, D] by the embeddings of all pieces [V, D], to [M, V]."""
        return linear(self.LayerNorm(self.activation(self.dense(states))), words, self.bias)


@dataclass(frozen=True)
class MaskedPieces:
    """The scores of the masked pieces of one example.

    Args:
        masked: how many there are.
        right: of how many the likeliest piece is the one that was there.
        nats: the sum of the negative logarithms of the right pieces' probabilities.
    """

    example_id: str
    masked: int
    right: int
    nats: float


class MaskedLM(TableTask[TableExample, MaskedPieces]):
    """Cross entropy of the masked pieces, those whose label is not 0; only they meet the vocabulary.

    Source: google-research/tapas, `models/tapas_pretraining_model.py`, without its loss of the next sentence, which
    has nothing to tell where no table is swapped.
    """

    spec = TaskSpec("dev/masked_accuracy", label="pieces", encoding="masked", auto_class="MaskedLM")

    def __init__(self, context: TaskContext, *, metrics: Sequence[Metric] = ()) -> None:
        super().__init__(context, metrics=metrics)
        words = self.encoder.embeddings.word_embeddings.num_embeddings
        self.add_heads(lambda model: MaskedLMHead(model.size.hidden_size, words, model.activation))

    def training_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return all: what is learnt needs no answer."""
        return list(examples)

    def output_loss(self, output: EncoderOutput, head: MaskedLMHead, encoder: TableEncoder) -> Tensor:
        """Average the losses of the masked pieces, a scalar. Those that the network omits count as 0."""
        logits, labels, _ = masked_logits(output, head, encoder)
        return self.average_terms(cross_entropy(logits, labels, reduction="sum"), output.batch, "pieces")

    def count_terms(self, batch: TableBatch) -> dict[str, Tensor | int]:
        """Count examples and their masked pieces."""
        assert batch.label_ids is not None
        return {**super().count_terms(batch), "pieces": (batch.label_ids > 0).sum()}

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[MaskedPieces]:
        """Return what became of the masked pieces of each example.

        Of those that the network leaves out all are as likely.
        """
        logits, labels, owner = masked_logits(output, self.head, self.encoder)
        each = torch.stack(
            [
                torch.ones_like(labels, dtype=torch.float32),
                (logits.argmax(-1) == labels).float(),
                cross_entropy(logits, labels, reduction="none"),
            ],
            dim=1,
        )
        read, right, nats = each.new_zeros(len(batch.example_ids), 3).index_add_(0, owner, each).T
        assert batch.label_ids is not None
        masked = (batch.label_ids > 0).sum(1)
        nats = nats + (masked - read) * math.log(logits.shape[1])
        counts = zip(batch.example_ids, masked.tolist(), right.tolist(), nats.tolist(), strict=True)
        return [MaskedPieces(name, masked, int(right), nats) for name, masked, right, nats in counts]

    def auto_scores(self, output: EncoderOutput, length: int) -> dict[str, Tensor]:
        """Score all pieces for each token, [B, length, V]; 0 for all where a token is not kept."""
        logits = self.head(output.states, self.encoder.embeddings.word_embeddings.weight).float()
        return {"logits": output.spread_out(logits, length, 0.0)}

    def score(self, predictions: Sequence[MaskedPieces], examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Return the share of masked pieces that were told, and the perplexity of all masked pieces."""
        return masked_scores(
            masked=sum(prediction.masked for prediction in predictions),
            right=sum(prediction.right for prediction in predictions),
            nats=sum(prediction.nats for prediction in predictions),
        )

    def answers(self, predictions: Sequence[MaskedPieces], examples: Mapping[str, TableExample]) -> dict[str, str]:
        """Return answers in words, by example."""
        return {pieces.example_id: f"{pieces.right} of {pieces.masked} masked pieces" for pieces in predictions}

    def is_correct(self, prediction: MaskedPieces, example: TableExample) -> bool:
        """Tell whether all masked pieces were told."""
        return prediction.right == prediction.masked


def masked_logits(output: EncoderOutput, head: nn.Module, encoder: TableEncoder) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scores [M, V] and labels [M] of the masked pieces, and the example [M] that each is of."""
    label_ids = output.batch.label_ids
    assert label_ids is not None
    masked = label_ids > 0
    logits: Tensor = head(output.states[masked], encoder.embeddings.word_embeddings.weight)
    return logits.float(), label_ids[masked], masked.nonzero()[:, 0]
