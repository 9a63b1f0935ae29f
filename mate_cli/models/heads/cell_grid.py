"""Tokens gathered into a grid of cells, so that sums over cells and columns have a fixed shape.

Source: google-research/tapas, `utils/segmented_tensor.py` and `tapas_classifier_model._get_classification_outputs`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mate_cli.tokenization.layout import SUMMARY_ROW, TableBatch


@dataclass(frozen=True)
class CellGrid:
    """The place of every token in a grid of R x C cells; place (0, 0) is the question, row 0 the header.

    Rows and columns beyond the grid share its last row and column, as in the reference. Unlike there, padding is in no
    cell: the reference averages it into the question's, so that there the length of a batch matters.

    Args:
        places: row * C + column of every token, Int64 [B, T].
        real: Bool [B, T], False on padding and on what is said of whole columns.
        rows: R, the header among them.
        columns: C, the question's among them.
    """

    places: Tensor
    real: Tensor
    rows: int
    columns: int

    @classmethod
    def of(cls, batch: TableBatch, rows: int, columns: int) -> CellGrid:
        """Return the grid of a batch."""
        places = batch.row_ids.clamp(max=rows - 1) * columns + batch.column_ids.clamp(max=columns - 1)
        return cls(places, (batch.attention_mask == 1) & (batch.row_ids < SUMMARY_ROW), rows, columns)

    def sums(self, values: Tensor) -> Tensor:
        """Return the sum over each cell's tokens: [B, T] to [B, R, C], 0 where there is no cell."""
        empty = values.new_zeros(len(values), self.rows * self.columns)
        return empty.scatter_add(1, self.places, values * self.real).view(-1, self.rows, self.columns)

    @property
    def sizes(self) -> Tensor:
        """The number of tokens of each cell, float [B, R, C]."""
        return self.sums(self.real.float())

    @property
    def exists(self) -> Tensor:
        """True where there is a cell, Bool [B, R, C]."""
        return self.sizes > 0

    def means(self, values: Tensor) -> Tensor:
        """Return the mean over each cell's tokens: [B, T] to [B, R, C], 0 where there is no cell."""
        return self.sums(values) / self.sizes.clamp(min=1)

    def column_means(self, values: Tensor) -> Tensor:
        """Give the mean over each column's cells of the means over their tokens: [B, T] to [B, C], 0 where none is."""
        return self.means(values).sum(1) / self.exists.sum(1).clamp(min=1)

    def column_token_means(self, values: Tensor) -> Tensor:
        """Return the mean over each column's tokens, whatever cell they are in: [B, T] to [B, C], 0 where none is."""
        return self.sums(values).sum(1) / self.sizes.sum(1).clamp(min=1)

    def spread(self, values: Tensor) -> Tensor:
        """Give every token, padding too, the value of its place: [B, R, C] to [B, T]."""
        return values.flatten(1).gather(1, self.places)

    def in_column(self, columns: Tensor) -> Tensor:
        """Return which cells are in the column chosen for each example [B]: Bool [B, 1, C]."""
        return torch.arange(self.columns, device=columns.device) == columns[:, None, None]
