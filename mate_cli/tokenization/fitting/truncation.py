"""Truncation of a table to a token budget, independent of or guided by the question.

"Cell concatenation" truncates cells and drops last rows (TAPAS paper, section 3; google-research/tapas,
`utils/tf_example_utils.py`). "Heuristic exact match" (HEM) selects whole columns, or cells token by token. At column
level, columns are ranked by the words shared with the question and added while the table fits, and the selected
columns are then truncated like any table. At cell level, the score of a cell is the sum of the overlaps of its column,
its row and its words with the question, and the tokens of the best cells are taken until the budget is spent.

Source: Eisenschlos et al. 2020, section 3.3; google-research/tapas, `utils/pruning_utils.py`, except for two bugs of
its cell level. It counts words of a cell although the budget is in word-piece tokens, so it drops the last tokens of
long words even from a table that fits. It also searches the previous answer one row too high, because only one of two
row indices counts the header. The DoT paper compares column selection with truncation alone.
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


class TableSize(NamedTuple):
    """Size to which a table is truncated: its rows, and the tokens per cell.

    Args:
        rows: number of body rows to keep.
        tokens: exclusive upper bound for the token index in its cell at which a kept word may start.
    """

    rows: int
    tokens: int


def fit_table(
    word_starts: np.ndarray, rows: np.ndarray, budget: int, *, cell_trim_length: int | None, drop_rows: bool
) -> TableSize | None:
    """Find the largest number of tokens per cell with which a table fits into a token budget.

    Every cell keeps its first word, and words are never split.

    Args:
        word_starts: index in its cell of the first token of each token's word, [P].
        rows: row of each token in reading order, 0 for the header, [P].
        budget: maximum number of tokens.
        cell_trim_length: fixed number of tokens after which cells are truncated. None truncates as little as possible.
        drop_rows: whether to drop last rows if cells cannot be truncated further.

    Returns:
        The size of the table. None if not even one body row fits, or if rows do not fit and `drop_rows` is false.
    """
    longest = int(word_starts.max()) + 1
    fixed = None if cell_trim_length is None else min(longest, cell_trim_length)
    cost_of_rows = np.bincount(rows[word_starts < (fixed or 1)]).cumsum()
    row_count = int(np.searchsorted(cost_of_rows, budget, side="right")) - 1
    if row_count < 1 or (row_count < len(cost_of_rows) - 1 and not drop_rows):
        return None
    if fixed is not None:
        return TableSize(row_count, fixed)
    cost_of_pieces = np.bincount(word_starts[rows <= row_count]).cumsum()
    return TableSize(row_count, int(np.searchsorted(cost_of_pieces, budget, side="right")))


def smallest_table(word_starts: np.ndarray, rows: np.ndarray) -> int:
    """Count the tokens of the smallest truncated table: the first word of each cell of the header and of one row."""
    return int(np.count_nonzero(word_starts[rows <= 1] == 0))


TRUNCATION_COUNTS = ("shortened_cells", "dropped_rows", "dropped_columns", "lost_answers")
"""Names of the four counts in `TableEncoding.cut`: cells that lost some or all words, rows and columns that were
dropped, and answer cells that were dropped."""
TRUNCATION_NAMES = ("cells shortened", "rows dropped", "columns dropped", "answer cells lost")


def count_cuts(example: TableExample, cells: np.ndarray, kept_cells: np.ndarray) -> np.ndarray:
    """Count the cells, rows, columns and answer cells that truncation changed or dropped, int32 [4].

    The order is that of `TRUNCATION_COUNTS`. A row or column without any token counts as dropped, and its cells do not
    count as shortened.

    Args:
        example: the encoded example.
        cells: cell index of each token of the whole table, in reading order with the header row first, [P].
        kept_cells: cell index of each token in the encoding.
    """
    table = example.table
    width = len(table.header)
    full_counts = np.bincount(cells).reshape(-1, width)
    kept_counts = np.bincount(kept_cells, minlength=full_counts.size).reshape(-1, width)
    rows, columns = kept_counts.sum(axis=1) > 0, kept_counts.sum(axis=0) > 0
    shortened = np.count_nonzero((full_counts - kept_counts)[rows][:, columns])
    dropped = len(table.rows) - np.count_nonzero(rows[1:]), width - np.count_nonzero(columns)
    lost = lost_cells(example.answer.coordinates if example.answer else (), kept_cells, width)
    return np.array((shortened, *dropped, len(lost)), np.int32)


def lost_cells(coordinates: Coordinates, kept_cells: np.ndarray, width: int) -> Coordinates:
    """Select the cells (such as answer cells) that lost all of their tokens by truncation.

    Args:
        coordinates: (row, column) of body cells, both from 0.
        kept_cells: cell index of each token in the encoding, in reading order with the header row first.
        width: number of columns.
    """
    kept_set = set(kept_cells.tolist())
    return tuple((row, column) for row, column in coordinates if (row + 1) * width + column not in kept_set)


def describe_cuts(cuts: np.ndarray, unit: str = "tables") -> str:
    """Summarize for the user what was truncated in N tables, such as how many tables lost rows.

    Args:
        cuts: counts of `TRUNCATION_COUNTS` for each table, [N, 4].
        unit: name of the documents in the data, such as `passages`, which are truncated like cells.
    """
    counts = (cuts > 0).sum(0).tolist()
    parts = [
        f"{name if unit == 'tables' else name.replace('cells', unit)} in {count:,} ({count / len(cuts):.1%})"
        for name, count in zip(TRUNCATION_NAMES, counts, strict=True)
        if count
    ]
    return f"{', '.join(parts) or 'nothing cut'} of {len(cuts):,}"


def describe_cut(counts: np.ndarray) -> str:
    """Describe the truncation of one table as text, such as "dropped rows: 2", or "nothing" if the table is complete.

    Args:
        counts: counts of `TRUNCATION_COUNTS`, [4].
    """
    pairs = zip(TRUNCATION_NAMES, counts.tolist(), strict=True)
    return ", ".join(f"{name}: {count:,}" for name, count in pairs if count) or "nothing"


Stems = frozenset[str]


@cache
def _stemmer() -> PorterStemmer:
    """Return the Porter stemmer of NLTK, as in google-research/tapas. NLTK is imported here because that is slow."""
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return the Porter stem of a word, in lower case."""
    return str(_stemmer().stem(word))


def stems(text: str) -> Stems:
    """Return the set of Porter stems of the words of a text. A text without words has the stem of "EMPTY"."""
    return frozenset(map(stem, format_text(text).split()))


def similarity(first: Stems, second: Stems) -> float:
    """Compute the Jaccard index of two sets of stems: common stems over all stems. It is 0 for two empty sets."""
    overlap = len(first & second)
    return overlap / max(1, len(first) + len(second) - overlap)


class TableStems:
    """Stems of each cell, row and column of a table, by which cells and columns are compared with a question."""

    def __init__(self, table: Table) -> None:
        self._lines = (table.header, *table.rows)

    @cached_property
    def cells(self) -> list[list[Stems]]:
        """Porter stems of the words in each cell, one list per row. The first row is the header."""
        stems_by_text = {text: stems(text) for text in {cell.text for row in self._lines for cell in row}}
        return [[stems_by_text[cell.text] for cell in row] for row in self._lines]

    @cached_property
    def rows(self) -> list[Stems]:
        """Stems of the words in each row. Row 0 is the header."""
        return [frozenset[str]().union(*row) for row in self.cells]

    @cached_property
    def columns(self) -> list[Stems]:
        """Stems of the words in each column, with its header."""
        return [frozenset[str]().union(*column) for column in zip(*self.cells, strict=True)]

    def column_scores(self, example: TableExample) -> list[float]:
        """Score each column by the words that it shares with the question and the previous questions.

        Columns of the previous answer get the highest score.
        """
        question_stems = _stem_questions(example)
        scores = [similarity(column, question_stems) for column in self.columns]
        for column in {column for _, column in example.previous_cells if column < len(scores)}:
            scores[column] = float(len(scores))
        return scores

    def cell_scores(self, example: TableExample) -> np.ndarray:
        """Score each cell by the words that it, its row and its column share with the question and previous questions.

        Cells of the previous answer get the highest score.

        Returns:
            Float64 [rows + 1, columns], the header row first.
        """
        question_stems = _stem_questions(example)
        rows = [similarity(row, question_stems) for row in self.rows]
        columns = [similarity(column, question_stems) for column in self.columns]
        scores = np.array(
            [
                [column + row + similarity(cell, question_stems) for column, cell in zip(columns, cells, strict=True)]
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
    """Select columns in descending order of score. Skip a column that exceeds the remaining token budget.

    Of columns with equal scores, the first column is tried first.

    Args:
        scores: score of each column.
        costs: number of tokens of each column, including its header.
        budget: maximum number of tokens.
    """
    selected_columns: list[int] = []
    for column in sorted(range(len(scores)), key=lambda index: -scores[index]):
        if costs[column] <= budget:
            selected_columns.append(column)
            budget -= costs[column]
    return selected_columns


def tokens_to_keep(scores: np.ndarray, lengths: np.ndarray, budget: int) -> np.ndarray:
    """Distribute a token budget to cells in descending order of score, and return how many tokens each cell keeps.

    The last of these cells may keep only its first tokens.

    Args:
        scores: score of each cell, [rows, columns]. Ties go to the first column, then to the first row.
        lengths: number of tokens of each cell, [rows, columns].
        budget: maximum number of tokens of the table.

    Returns:
        The number of tokens that each cell keeps, int64 [rows, columns].
    """
    order = np.argsort(-scores.T, axis=None, kind="stable")
    sorted_lengths = lengths.T.reshape(-1)[order]
    counts = np.empty_like(sorted_lengths)
    counts[order] = np.clip(budget - (sorted_lengths.cumsum() - sorted_lengths), 0, sorted_lengths)
    return counts.reshape(scores.T.shape).T
