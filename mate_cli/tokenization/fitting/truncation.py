"""Fit a table into a budget of tokens by shortening cells ("cell concatenation") and dropping last rows; count cuts.

Source: TAPAS paper, section 3 and google-research/tapas, `utils/tf_example_utils.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mate_cli.tables.example import Coordinates, TableExample


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


def describe_cuts(cuts: np.ndarray) -> str:
    """Say what was cut from N tables, [N, 4], or that nothing was."""
    counts = (cuts > 0).sum(0).tolist()
    parts = [
        f"{name} in {count:,} ({count / len(cuts):.1%})"
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
