"""A table with linked passages, as the datasets' authors ship it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its text and the passages that it links to (keys of `Table.passages`)."""

    text: str
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A header and body rows; every row has as many cells as the header.

    Args:
        table_id: the dataset's own name of the table.
        header: one cell per column.
        rows: body rows, row 0 being the first row below the header.
        passages: text of each linked passage, by link.
    """

    table_id: str
    header: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    section_title: str = ""
    section_text: str = ""
    intro: str = ""
    passages: Mapping[str, str] = field(default_factory=dict)

    def cells(self) -> Iterator[tuple[int, int, Cell]]:
        """Yield (row, column, cell) of the body, row by row; both indices start at 0."""
        for row_index, row in enumerate(self.rows):
            for column_index, cell in enumerate(row):
                yield row_index, column_index, cell
