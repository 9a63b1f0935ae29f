"""Choose the columns of a table that fit a question, or its cells, token by token ("heuristic exact match", HEM).

Columns are ranked by the words they share with the question and added whole while the table fits; what is chosen is
then shortened like any table. A cell is worth what its column, its row and its own words have in common with the
question; the tokens of the best cells are taken until the budget is spent.
Source: Eisenschlos et al. 2020, section 3.3; google-research/tapas, `utils/pruning_utils.py`, but for two slips of its
cell level. It counts the words of a cell where the budget is one of word pieces, and then drops the last pieces of long
words even from a table that fits. And it looks for the answer before one row too high, as it counts the header among
the rows of one side only. The DoT paper compares columns with shortening alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tables.text import format_text

if TYPE_CHECKING:
    from nltk.stem.porter import PorterStemmer

Stems = frozenset[str]


@cache
def _stemmer() -> PorterStemmer:
    """Return the reference's stemmer, NLTK's variant of Porter's; slow to import, so only where it is used."""
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return a word without its ending, in lower case."""
    return str(_stemmer().stem(word))


def stems(text: str) -> Stems:
    """Return the stems of a text's words; a text without words has that of the word "EMPTY"."""
    return frozenset(map(stem, format_text(text).split()))


def similarity(first: Stems, second: Stems) -> float:
    """Return Jaccard's index: the shared stems over all stems; 0 where there are none."""
    shared = len(first & second)
    return shared / max(1, len(first) + len(second) - shared)


class TableStems:
    """The stems of each cell, row and column of a table, all of its rows; worked out once, when they are asked for."""

    def __init__(self, table: Table) -> None:
        self._lines = (table.header, *table.rows)

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

    def column_scores(self, example: TableExample) -> list[float]:
        """Score each column by the question and those before it; columns of the previous answer come first."""
        asked = _stem_questions(example)
        scores = [similarity(column, asked) for column in self.columns]
        for column in {column for _, column in example.previous_cells if column < len(scores)}:
            scores[column] = float(len(scores))
        return scores

    def cell_scores(self, example: TableExample) -> np.ndarray:
        """Score each cell by the question and those before it, float64 [rows + 1, columns], the header first.

        Cells of the previous answer come before all others.
        """
        asked = _stem_questions(example)
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


def _stem_questions(example: TableExample) -> Stems:
    return stems(" ".join([*example.history, example.question]))


def choose_columns(scores: Sequence[float], costs: Sequence[int], budget: int) -> Collection[int]:
    """Add columns, the best first, leaving out those that are too long for what is left of the budget.

    The first of equal scores wins; costs are tokens of columns, header and all.
    """
    chosen: list[int] = []
    for column in sorted(range(len(scores)), key=lambda place: -scores[place]):
        if costs[column] <= budget:
            chosen.append(column)
            budget -= costs[column]
    return chosen


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
    counts = np.empty_like(wanted)
    counts[order] = np.clip(budget - (wanted.cumsum() - wanted), 0, wanted)
    return counts.reshape(scores.T.shape).T
