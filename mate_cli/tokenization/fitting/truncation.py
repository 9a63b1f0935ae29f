"""Fit a table into a budget of tokens by shortening its cells ("cell concatenation") and dropping last rows.

Source: TAPAS paper, section 3 and google-research/tapas, `utils/tf_example_utils.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Fit(NamedTuple):
    """How many body rows are kept, and up to which piece index a word may begin to be kept."""

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
    kept = int(np.searchsorted(cost_of_rows, budget, side="right")) - 1
    if kept < 1 or (kept < len(cost_of_rows) - 1 and not drop_rows):
        return None
    if fixed is not None:
        return Fit(kept, fixed)
    cost_of_pieces = np.bincount(word_starts[rows <= kept]).cumsum()
    return Fit(kept, int(np.searchsorted(cost_of_pieces, budget, side="right")))


def smallest_table(word_starts: np.ndarray, rows: np.ndarray) -> int:
    """The fewest pieces that a table can be shortened to: the first words of the header and of one row."""
    return int(np.count_nonzero(word_starts[rows <= 1] == 0))
