"""What was left out of a table so that it fits, counted."""

from __future__ import annotations

import numpy as np

from mate_cli.tables.example import Coordinates, TableExample

CUTS = ("shortened_cells", "dropped_rows", "dropped_columns", "lost_answers")
"""What `TableEncoding.cut` counts, in its order: cells that lost words or all of them, rows and columns that are gone,
and answer cells that went with them."""
SAID = ("cells shortened", "rows dropped", "columns dropped", "answer cells lost")


def count_cuts(example: TableExample, cells: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Count what is missing from an encoding, int32 [4], see `CUTS`; rows and columns that are gone have no cells.

    Args:
        example: what was encoded.
        cells: the cell of each piece of the table in reading order, the header row first, [P].
        kept: that of each piece in the encoding.
    """
    table = example.table
    width = len(table.header)
    whole = np.bincount(cells).reshape(-1, width)
    left = np.bincount(kept, minlength=whole.size).reshape(-1, width)
    rows, columns = left.sum(axis=1) > 0, left.sum(axis=0) > 0
    shortened = np.count_nonzero((whole - left)[rows][:, columns])
    dropped = len(table.rows) - np.count_nonzero(rows[1:]), width - np.count_nonzero(columns)
    lost = lost_cells(example.answer.coordinates if example.answer else (), kept, width)
    return np.array((shortened, *dropped, len(lost)), np.int32)


def lost_cells(coordinates: Coordinates, kept: np.ndarray, width: int) -> Coordinates:
    """Those of some body cells of which no piece is kept; `kept` and `width` as in `count_cuts`."""
    left = set(kept.tolist())
    return tuple((row, column) for row, column in coordinates if (row + 1) * width + column not in left)


def describe_cuts(cuts: np.ndarray) -> str:
    """Say what was cut from N tables, [N, 4], or that nothing was."""
    counts = (cuts > 0).sum(0).tolist()
    said = [f"{name} in {count:,} ({count / len(cuts):.1%})" for name, count in zip(SAID, counts, strict=True) if count]
    return f"{', '.join(said) or 'nothing cut'} of {len(cuts):,}"


def describe_cut(cut: np.ndarray) -> str:
    """Say what was cut from one table, [4], or that nothing was."""
    return ", ".join(f"{name}: {count:,}" for name, count in zip(SAID, cut.tolist(), strict=True) if count) or "nothing"
