"""Scores of how much each token of a table matters to its question, and the choice of those that are kept.

Source: Krichene et al., "DoT: An Efficient Double Transformer for NLP tasks with tables", Findings of ACL 2021, section
2; google-research/tapas, `utils/table_pruning.py`.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from mate_cli.models.base.encoder_output import EncoderOutput
from mate_cli.models.heads.cell_grid import CellGrid
from mate_cli.models.heads.score import Score
from mate_cli.models.layers.embeddings import FastDropout
from mate_cli.tokenization.layout import TableBatch

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
