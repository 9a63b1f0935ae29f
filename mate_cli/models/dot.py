"""DoT: a small transformer chooses tokens, and a large one answers from them.

Source: Krichene et al., "DoT: An Efficient Double Transformer for NLP tasks with tables", Findings of ACL 2021,
section 2; google-research/tapas, `utils/table_pruning.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from mate_cli.attention.base import AttentionBackend, Planner
from mate_cli.attention.patterns import Full, RowColumnHeads
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import EncoderOutput, Reader, TableEncoder
from mate_cli.models.heads.cell_grid import CellGrid
from mate_cli.models.heads.scores import Score
from mate_cli.models.layers.embeddings import FastDropout
from mate_cli.models.layers.encoder import LayerSpec
from mate_cli.models.mate import RowHeadRatio
from mate_cli.tokenization.layout import TableBatch, gather_tokens, renumber_positions

Selection = Literal["tokens", "columns"]
ColumnScore = Literal["cells", "tokens"]
"""The kind of mean that is the score of a column, see `TokenScores`."""
DROPOUT = 0.1
"""On the states before they are scored, as in the reference's heads."""


class TokenScores(nn.Module):
    """The logarithm of the probability that a token matters; those outside the table matter for certain.

    Args:
        select: score each token by itself, or all tokens of a column alike.
        column_score: "cells", as released: the logarithm of the probability that belongs to the mean logit of the
            column's cells, each the mean of its tokens'; "tokens", as the paper has it: the mean score of the tokens.
        max_rows: R, rows told apart where columns are scored, the header among them; later ones count as the last.
        max_columns: C, columns told apart there, the question's among them; later ones share the score of the last.
    """

    transformers_names: ClassVar[Mapping[str, str]] = {
        "tokens.weight": "output_weights",
        "tokens.bias": "output_bias",
        "columns.weight": "column_output_weights",
        "columns.bias": "column_output_bias",
    }
    run_names: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "tokens.weight": ("head.score.weight", "head.cells.weight"),
        "tokens.bias": ("head.score.bias", "head.cells.bias"),
        "columns.weight": ("head.columns.weight",),
        "columns.bias": ("head.columns.bias",),
    }

    def __init__(
        self,
        hidden_size: int,
        select: Selection,
        column_score: ColumnScore = "cells",
        *,
        max_rows: int = 64,
        max_columns: int = 32,
    ) -> None:
        super().__init__()
        self.column_score = column_score
        self.shape = max_rows, max_columns
        self.tokens = Score(hidden_size, 1) if select == "tokens" else None
        self.columns = Score(hidden_size, 1) if select == "columns" else None
        self.dropout = FastDropout(DROPOUT)

    def forward(self, output: EncoderOutput) -> Tensor:
        """Score the tokens of a batch in 32 bits, [B, T]; those of the header as those of the body."""
        batch, states = output.batch, self.dropout(output.states)
        if self.tokens is None:
            return outside_counts(self._column_scores(states, batch), batch)
        return outside_counts(logsigmoid(self.tokens(states).squeeze(-1).float()), batch)

    def share_layer(self, head: nn.Module) -> bool:
        """Let a head score by the weights of this, which stay here; False where it has no such scores (`choices`)."""
        for kind, name in getattr(head, "choices", {}).items():
            layer = getattr(self, kind)
            if layer is not None and getattr(head, name) is not None:
                delattr(head, name)
                setattr(head, name, SharedLayer(layer))
                return True
        return False

    def _column_scores(self, states: Tensor, batch: TableBatch) -> Tensor:
        """Give every token [B, T] the score of its column, the header's cell or tokens among what is averaged."""
        assert self.columns is not None
        grid, logits = CellGrid.of(batch, *self.shape), self.columns(states).squeeze(-1).float()
        if self.column_score == "cells":
            means = logsigmoid(grid.column_means(logits))
        else:
            means = grid.column_token_means(logsigmoid(logits))
        return means.gather(1, batch.column_ids.clamp(max=grid.columns - 1))


class SharedLayer:
    """A layer that belongs to another module, and is saved and trained there."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer

    def __call__(self, states: Tensor) -> Tensor:
        """Return what the layer makes of states."""
        scores: Tensor = self.layer(states)
        return scores


def outside_counts(scores: Tensor, batch: TableBatch) -> Tensor:
    """Return the scores [B, T] of tokens of a table, 0 (certainty) for other tokens, minus infinity for padding."""
    outside = scores.masked_fill(batch.column_ids <= 0, 0.0)
    return outside.masked_fill(batch.attention_mask == 0, -torch.inf)


def best_tokens(scores: Tensor, count: int) -> Tensor:
    """Return which tokens have the best scores [B, T], in the order in which they stand: Int64 [B, min(count, T)].

    Of equal ones the earlier is the better.
    """
    return scores.argsort(dim=1, descending=True, stable=True)[:, :count].sort(dim=1).values


MIN_SCORE = -1e4
"""The lowest bias on a key, which 16 bits can hold; the reference's for a probability of zero."""


class Dot(TableEncoder):
    """A pruning transformer scores the tokens of a table; a task transformer reads the K best of them.

    The layers of this network are the task transformer's. In each of its heads the logarithm of a token's score is
    added to the attention that the token gets, and so the loss teaches what matters.

    Args:
        pruner: builds the pruning transformer; options that it does not set are those of the task transformer.
        keep: K, tokens that the task transformer reads, the question's among them.
        select: keep the best tokens, or the tokens of the best columns.
        column_score: what the score of a column is a mean of, see `TokenScores`.
        learn: what teaches the pruning transformer: "joint" the loss of the task transformer alone, through the scores
            (J in the paper); "pruning" a loss of its own alone, the scores only choosing tokens (P); "both" both (PJ).
        first: keep the first K tokens, without any pruning transformer: what one that learns must exceed.
        row_head_ratio: the share of row heads in the task transformer, as in MATE; None for full attention.
    """

    def __init__(
        self,
        size: str | EncoderSize,
        *,
        attention: AttentionBackend,
        pruner: Callable[..., TableEncoder],
        keep: Annotated[int, Field(gt=0)] = 256,
        select: Literal["tokens", "columns"] = "tokens",
        column_score: ColumnScore = "cells",
        learn: Literal["joint", "pruning", "both"] = "joint",
        first: bool = False,
        row_head_ratio: RowHeadRatio | None = None,
        **options: Any,
    ) -> None:
        shape = encoder_size(size)
        heads = shape.num_heads
        pattern = Full(heads) if row_head_ratio is None else RowColumnHeads(heads, row_head_ratio)
        super().__init__(size, [LayerSpec(pattern, attention)] * shape.num_layers, **options)
        self.keep = keep
        self.learn = learn
        self.pruner: TableEncoder | None = None
        if not first:
            keywords = getattr(pruner, "keywords", {})
            shared = {name: value for name, value in options.items() if name not in keywords}
            self.pruner = pruner(attention=attention, pooler=learn != "joint", **shared)
            self.scores = TokenScores(self.pruner.size.hidden_size, select, column_score)
            self.max_tokens = self.pruner.max_tokens

    @property
    def encoders(self) -> Mapping[str, TableEncoder]:
        """The task transformer, and the pruning transformer where there is one."""
        return {"": self} if self.pruner is None else {"": self, "pruner.": self.pruner}

    @property
    def auxiliary_encoder(self) -> TableEncoder | None:
        """The pruning transformer, where it has a loss of its own."""
        return None if self.learn == "joint" else self.pruner

    def share_token_scorer(self, head: nn.Module) -> None:
        """Let a head of the pruning transformer score by what chooses tokens, as the reference does.

        Where it scores something else and no gradient comes through attention, nothing teaches the scores.
        """
        lent = self.scores.share_layer(head)
        self.scores.requires_grad_(lent or self.learn != "pruning")

    @property
    def planner(self) -> Planner:
        """Prepares batches for the pruning transformer; what the other one reads is not known before."""
        return Planner(()) if self.pruner is None else self.pruner.planner

    def layer_inputs(self, batch: TableBatch) -> Sequence[tuple[Reader, TableBatch]]:
        """Return all tokens for the pruning transformer; of those that the other one reads only the number is known."""
        places = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)[: self.keep]
        layer_input = self, batch.keep(places.expand(len(batch.input_ids), -1))
        return [layer_input] if self.pruner is None else [*self.pruner.layer_inputs(batch), layer_input]

    def forward(self, batch: TableBatch) -> EncoderOutput:
        """Encode the tokens of a batch that are kept, in the order in which they stand; no more than K."""
        early = None if self.pruner is None else self.pruner(batch)
        scores = self.token_scores(batch, early)
        places = best_tokens(scores.detach(), self.keep)
        short = renumber_positions(batch, places, self.size.max_positions)
        plans = self.plans(short)
        bias = None
        if early is not None and self.learn != "pruning":
            bias = plans.packing.pack(gather_tokens(scores, places).clamp(min=MIN_SCORE))
        states = plans.packing.unpack(self.encoder(self.embeddings(short, plans.packing), plans, bias))
        learnt = None if early is None else scores.detach()
        return EncoderOutput(states, self.pooler(states), short, early, learnt)

    def token_scores(self, batch: TableBatch, early: EncoderOutput | None) -> Tensor:
        """Give the logarithm of the probability that a token matters [B, T], from what the pruning transformer says."""
        if early is None:
            return outside_counts(torch.zeros_like(batch.input_ids, dtype=torch.float32), batch)
        scores: Tensor = self.scores(early)
        return scores
