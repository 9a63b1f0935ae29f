"""What was left out of a table so that it fits, counted."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from mate_cli.tables.example import Coordinates, TableExample
from mate_cli.tokenization.pieces import TablePieces
from mate_cli.tokenization.truncation import Fit

CUTS = ("shortened_cells", "dropped_rows", "dropped_columns", "lost_answers")
"""What `TableEncoding.cut` counts, in its order: cells that lost words, rows and columns that are gone, and answer
cells that went with them."""
SAID = ("cells shortened", "rows dropped", "columns dropped", "answer cells lost")


def count_cuts(
    example: TableExample, pieces: TablePieces, kept: np.ndarray, fit: Fit, columns: Collection[int]
) -> np.ndarray:
    """Count what is missing from an encoding, int32 [4], see `CUTS`.

    Args:
        example: what was encoded.
        pieces: those of the chosen columns.
        kept: which of them are in the encoding, Bool [P].
        fit: how many rows there are room for.
        columns: the chosen columns.
    """
    table = example.table
    lost = lost_cells(example.answer.coordinates if example.answer else (), fit.rows, columns)
    dropped = len(table.rows) - fit.rows, len(table.header) - len(columns)
    return np.array((_shortened(pieces, kept, fit, len(table.header)), *dropped, len(lost)), np.int32)


def lost_cells(cells: Coordinates, rows: int, columns: Collection[int]) -> Coordinates:
    """Those of some body cells that are not in the first rows and the chosen columns."""
    return tuple(cell for cell in cells if cell[0] >= rows or cell[1] not in columns)


def _shortened(pieces: TablePieces, kept: np.ndarray, fit: Fit, width: int) -> int:
    """How many cells of the rows that are kept have lost words."""
    missing = pieces.cells[~kept]
    inside = missing[: np.searchsorted(missing, (fit.rows + 1) * width)]
    return int(np.count_nonzero(np.diff(inside, prepend=-1)))


def describe_cuts(cuts: np.ndarray) -> str:
    """Say what was cut from many tables, or that nothing was.

    Args:
        cuts: of N examples, [N, 4].
    """
    counts = (cuts > 0).sum(0).tolist()
    said = [f"{name} in {count:,} ({count / len(cuts):.1%})" for name, count in zip(SAID, counts, strict=True) if count]
    return f"{', '.join(said) or 'nothing cut'} of {len(cuts):,}"


def describe_cut(cut: np.ndarray) -> str:
    """Say what was cut from one table, [4], or that nothing was."""
    return ", ".join(f"{name}: {count:,}" for name, count in zip(SAID, cut.tolist(), strict=True) if count) or "nothing"
