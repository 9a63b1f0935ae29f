"""Choose the cells of a table that fit a question, token by token ("heuristic exact match", HEM, on cells).

A cell is worth what its column, its row and its own words have in common with the question; the tokens of the best
cells are taken until the budget is spent.
Source: google-research/tapas, `utils/pruning_utils.py` (cell level), but for two slips of it. It counts the words of a
cell where the budget is one of word pieces, and then drops the last pieces of long words even from a table that fits.
And it looks for the answer before one row too high, as it counts the header among the rows of one side only.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.fitting.column_selection import Stems, similarity, stems


class CellStems:
    """The stems of each cell, row and column of a table, worked out once and only when they are asked for."""

    def __init__(self, table: Table) -> None:
        self._table = table

    @cached_property
    def cells(self) -> list[list[Stems]]:
        """The stems of every cell by row, the header first."""
        known = {text: stems(text) for text in {cell.text for row in self._lines for cell in row}}
        return [[known[cell.text] for cell in row] for row in self._lines]

    @cached_property
    def rows(self) -> list[Stems]:
        """The stems of every row, the header first."""
        return [frozenset[str]().union(*row) for row in self.cells]

    @cached_property
    def columns(self) -> list[Stems]:
        """The stems of every column, its header among them."""
        return [frozenset[str]().union(*column) for column in zip(*self.cells, strict=True)]

    def scores(self, example: TableExample) -> np.ndarray:
        """How well each cell fits the question and those before it, float64 [rows + 1, columns], the header first.

        Cells of the previous answer come before all others.
        """
        asked = stems(" ".join([*example.history, example.question]))
        rows = [similarity(row, asked) for row in self.rows]
        columns = [similarity(column, asked) for column in self.columns]
        scores = np.array(
            [
                [column + row + similarity(cell, asked) for column, cell in zip(columns, cells, strict=True)]
                for row, cells in zip(rows, self.cells, strict=True)
            ]
        )
        for row, column in example.previous_cells:
            if row + 1 < len(rows) and column < len(columns):
                scores[row + 1, column] = len(columns)
        return scores

    @property
    def _lines(self) -> tuple[tuple[Cell, ...], ...]:
        return (self._table.header, *self._table.rows)


def tokens_to_keep(scores: np.ndarray, lengths: np.ndarray, budget: int) -> np.ndarray:
    """Spend a budget on the best cells; the last one that gets anything may get only its first tokens.

    Args:
        scores: of each cell, [rows, columns]; of equals the first column wins, and in it the first row.
        lengths: tokens of each cell, [rows, columns].
        budget: tokens that the table may have.

    Returns:
        How many tokens each cell keeps, int64 [rows, columns].
    """
    order = np.argsort(-scores.T, axis=None, kind="stable")
    wanted = lengths.T.reshape(-1)[order]
    kept = np.empty_like(wanted)
    kept[order] = np.clip(budget - (wanted.cumsum() - wanted), 0, wanted)
    return kept.reshape(scores.T.shape).T
