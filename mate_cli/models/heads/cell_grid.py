"""Grouping of tokens into a grid of cells with a fixed shape, for sums over cells and columns.

Source: google-research/tapas, `utils/segmented_tensor.py` and `tapas_classifier_model._get_classification_outputs`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mate_cli.tokenization.layout import SUMMARY_ROW, TableBatch


@dataclass(frozen=True)
class CellGrid:
    """The cell of every token in a grid of R x C cells, for sums and means of token values over cells.

    Cell (0, 0) is the question, and row 0 is the header. Rows and columns beyond the grid share its last row and
    column, as in google-research/tapas. Unlike there, padding is in no cell: google-research/tapas averages padding
    into the cell of the question, so results depend on the length of a batch.

    Args:
        places: index row * C + column of the cell of every token, Int64 [B, T].
        real: False on padding and on summary tokens of whole columns (`SUMMARY_ROW`), Bool [B, T].
        rows: number R of rows, including the header.
        columns: number C of columns, including that of the question.
    """

    places: Tensor
    real: Tensor
    rows: int
    columns: int

    @classmethod
    def of(cls, batch: TableBatch, rows: int, columns: int) -> CellGrid:
        """Assign the tokens of a batch to the cells of a grid.

        Args:
            batch: batch of tokens with row and column ids.
            rows: number R of rows of the grid.
            columns: number C of columns of the grid.
        """
        cell_indices = batch.row_ids.clamp(max=rows - 1) * columns + batch.column_ids.clamp(max=columns - 1)
        return cls(cell_indices, (batch.attention_mask == 1) & (batch.row_ids < SUMMARY_ROW), rows, columns)

    def sums(self, values: Tensor) -> Tensor:
        """Sum values over the tokens of each cell: [B, T] to [B, R, C]. Missing cells get 0."""
        empty = values.new_zeros(len(values), self.rows * self.columns)
        return empty.scatter_add(1, self.places, values * self.real).view(-1, self.rows, self.columns)

    @property
    def sizes(self) -> Tensor:
        """The number of tokens of each cell, float32 [B, R, C]."""
        return self.sums(self.real.float())

    @property
    def exists(self) -> Tensor:
        """The mask of grid cells that contain at least one token, Bool [B, R, C]."""
        return self.sizes > 0

    def means(self, values: Tensor) -> Tensor:
        """Average values over the tokens of each cell: [B, T] to [B, R, C]. Missing cells get 0."""
        return self.sums(values) / self.sizes.clamp(min=1)

    def column_means(self, values: Tensor) -> Tensor:
        """Average token values over each cell, then over the cells of each column: [B, T] to [B, C].

        Columns without cells get 0.
        """
        return self.means(values).sum(1) / self.exists.sum(1).clamp(min=1)

    def column_token_means(self, values: Tensor) -> Tensor:
        """Average token values over all tokens of each column: [B, T] to [B, C].

        Columns without tokens get 0.
        """
        return self.sums(values).sum(1) / self.sizes.sum(1).clamp(min=1)

    def spread(self, values: Tensor) -> Tensor:
        """Copy the value of each cell to the tokens of the cell: [B, R, C] to [B, T], padding included."""
        return values.flatten(1).gather(1, self.places)

    def in_column(self, columns: Tensor) -> Tensor:
        """Convert one column index per example, Int64 [B], to a mask of columns, Bool [B, 1, C]."""
        return torch.arange(self.columns, device=columns.device) == columns[:, None, None]
