"""Fit a table into a budget of tokens: by shortening cells and dropping last rows, or by the words of the question.

The first is "cell concatenation" (TAPAS paper, section 3; google-research/tapas, `utils/tf_example_utils.py`). The
second, "heuristic exact match" (HEM), chooses columns, or cells token by token. Columns are ranked by the words they
share with the question and added whole while the table fits; what is chosen is then shortened like any table. A cell is
worth what its column, its row and its own words share with the question; the tokens of the best cells are taken
until the budget is spent.
Source: Eisenschlos et al. 2020, section 3.3; google-research/tapas, `utils/pruning_utils.py`, but for two slips of its
cell level. It counts the words of a cell where the budget is one of word pieces, and then drops the last pieces of long
words even from a table that fits. And it looks for the answer before one row too high, as it counts the header among
the rows of one side only. The DoT paper compares columns with shortening alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mate_cli.tables.example import Coordinates, TableExample
from mate_cli.tables.table import Table
from mate_cli.tables.text import format_text

if TYPE_CHECKING:
    from nltk.stem.porter import PorterStemmer


class Fit(NamedTuple):
    """Number of body rows that are kept, and the piece index up to which a word may begin to be kept."""

    rows: int
    pieces: int


def fit_table(
    word_starts: np.ndarray, rows: np.ndarray, budget: int, *, cell_trim_length: int | None, drop_rows: bool
) -> Fit | None:
    """Choose the longest cells that fit; every cell keeps its first word, and a word is never cut.

    Args:
        word_starts: where in its cell the word of each piece begins, [P].
        rows: the row of each piece in reading order, 0 for the header, [P].
        budget: how many pieces may be kept.
        cell_trim_length: cut cells here, and no shorter; None to cut as little as possible.
        drop_rows: drop last rows when cells cannot be shortened any more.

    Returns:
        None when not even one body row fits, or not all rows although none may be dropped.
    """
    longest = int(word_starts.max()) + 1
    fixed = None if cell_trim_length is None else min(longest, cell_trim_length)
    cost_of_rows = np.bincount(rows[word_starts < (fixed or 1)]).cumsum()
    row_count = int(np.searchsorted(cost_of_rows, budget, side="right")) - 1
    if row_count < 1 or (row_count < len(cost_of_rows) - 1 and not drop_rows):
        return None
    if fixed is not None:
        return Fit(row_count, fixed)
    cost_of_pieces = np.bincount(word_starts[rows <= row_count]).cumsum()
    return Fit(row_count, int(np.searchsorted(cost_of_pieces, budget, side="right")))


def smallest_table(word_starts: np.ndarray, rows: np.ndarray) -> int:
    """Return the fewest pieces that a table can be shortened to: the first words of the header and of one row."""
    return int(np.count_nonzero(word_starts[rows <= 1] == 0))


TRUNCATION_COUNTS = ("shortened_cells", "dropped_rows", "dropped_columns", "lost_answers")
"""What `TableEncoding.cut` counts, in its order: cells that lost words or all of them, rows and columns that are gone,
and answer cells that went with them."""
TRUNCATION_NAMES = ("cells shortened", "rows dropped", "columns dropped", "answer cells lost")


def count_cuts(example: TableExample, cells: np.ndarray, kept_cells: np.ndarray) -> np.ndarray:
    """Count what is missing from an encoding, int32 [4], see `TRUNCATION_COUNTS`; dropped ones have no cells.

    Args:
        example: what was encoded.
        cells: the cell of each piece of the table in reading order, the header row first, [P].
        kept_cells: that of each piece in the encoding.
    """
    table = example.table
    width = len(table.header)
    whole = np.bincount(cells).reshape(-1, width)
    left = np.bincount(kept_cells, minlength=whole.size).reshape(-1, width)
    rows, columns = left.sum(axis=1) > 0, left.sum(axis=0) > 0
    shortened = np.count_nonzero((whole - left)[rows][:, columns])
    dropped = len(table.rows) - np.count_nonzero(rows[1:]), width - np.count_nonzero(columns)
    lost = lost_cells(example.answer.coordinates if example.answer else (), kept_cells, width)
    return np.array((shortened, *dropped, len(lost)), np.int32)


def lost_cells(coordinates: Coordinates, kept_cells: np.ndarray, width: int) -> Coordinates:
    """Find the body cells of which no piece is kept; `kept_cells` and `width` as in `count_cuts`."""
    left = set(kept_cells.tolist())
    return tuple((row, column) for row, column in coordinates if (row + 1) * width + column not in left)


def describe_cuts(cuts: np.ndarray, unit: str = "tables") -> str:
    """Say what was cut from N tables, [N, 4], or that nothing was.

    Args:
        cuts: counts of `TRUNCATION_COUNTS`.
        unit: what the data have in place of tables, such as `passages`, which are shortened as cells are.
    """
    counts = (cuts > 0).sum(0).tolist()
    parts = [
        f"{name if unit == 'tables' else name.replace('cells', unit)} in {count:,} ({count / len(cuts):.1%})"
        for name, count in zip(TRUNCATION_NAMES, counts, strict=True)
        if count
    ]
    return f"{', '.join(parts) or 'nothing cut'} of {len(cuts):,}"


def describe_cut(cut: np.ndarray) -> str:
    """Say what was cut from one table, [4], or that nothing was."""
    return (
        ", ".join(f"{name}: {count:,}" for name, count in zip(TRUNCATION_NAMES, cut.tolist(), strict=True) if count)
        or "nothing"
    )


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
