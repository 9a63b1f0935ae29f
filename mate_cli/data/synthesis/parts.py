"""Cut tables into parts that are small enough to be read whole.

Source: google-research/tapas, `utils/beam_utils.py` and `utils/intermediate_pretrain_utils.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mate_cli.tables.table import Table

MAX_CELLS = 50
MIN_COLUMNS, MIN_ROWS = 2, 2


def table_parts(table: Table, max_cells: int = MAX_CELLS) -> Iterator[tuple[int, Table]]:
    """Halve the rows of a table until no part has more than so many body cells.

    Nothing comes of a table with one row or one column, with more columns than `max_cells`, and parts of one row
    are left out.

    Yields:
        The place of the part's first row in the table, and the part, with its own passages only.
    """
    columns, rows = len(table.header), len(table.rows)
    if columns < MIN_COLUMNS or rows < MIN_ROWS or columns > max_cells:
        return
    for begin, end in _halves(0, rows, max_cells // columns):
        if end - begin >= MIN_ROWS:
            yield begin, _part(table, begin, end)


def _halves(begin: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    if end - begin <= longest:
        yield begin, end
        return
    middle = (begin + end) // 2
    yield from _halves(begin, middle, longest)
    yield from _halves(middle, end, longest)


def _part(table: Table, begin: int, end: int) -> Table:
    rows = table.rows[begin:end]
    links = dict.fromkeys(link for row in rows for cell in row for link in cell.links)
    passages = {link: table.passages[link] for link in links if link in table.passages}
    return replace(table, rows=rows, passages=passages)
