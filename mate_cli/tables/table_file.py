"""A table of any length, of which single rows can be read."""

from __future__ import annotations

import json
import tempfile
import weakref
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mate_cli.tables.formats.cell_text import NumberText
from mate_cli.tables.table import Cell, Table
from mate_cli.tables.values.column_format import ColumnFormat

IN_MEMORY = 1 << 20
"""Bytes of rows that are kept in memory; with more, all of them go to a temporary file."""


class RowStore:
    """Rows of texts in the order in which they were added; any of them can be read again.

    Attributes:
        numbers: what each row is called, such as its place below the header with blank rows counted.
    """

    def __init__(self) -> None:
        self.numbers = array("q")
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - see below
        weakref.finalize(self, self._file.close)
        self._places, self._is_at_end = array("q", [0]), True

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, number: int, row: Sequence[str]) -> None:
        """Add a row."""
        cells: Sequence[str | list[str | float]] = row
        if NumberText in map(type, row):
            cells = [[cell, cell.number] if isinstance(cell, NumberText) else cell for cell in row]
        line = json.dumps(cells).encode() + b"\n"
        if not self._is_at_end:
            self._file.seek(self._places[-1])
            self._is_at_end = True
        self._file.write(line)
        self._places.append(self._places[-1] + len(line))
        self.numbers.append(number)

    def __getitem__(self, place: int) -> list[str]:
        """Return the row at a place, from 0."""
        self._file.seek(self._places[place])
        self._is_at_end = False
        cells = json.loads(self._file.read(self._places[place + 1] - self._places[place]))
        return [NumberText(*cell) if isinstance(cell, list) else cell for cell in cells]

    def __iter__(self) -> Iterator[list[str]]:
        """Yield all rows in their order."""
        return map(self.__getitem__, range(len(self)))


@dataclass
class TableFile:
    """A table whose rows are not all in memory.

    Args:
        path: where it was read from.
        header: a name for each of C columns; no two are alike.
        rows: the body rows that are not blank, each with at most as many cells as the file has columns.
        columns: which cells of a row belong to the header's columns.
        formats: how each of them writes numbers.
        notes: what was done on reading, as plain sentences.
        title: a line that stood alone above the table.
    """

    path: Path
    header: tuple[str, ...]
    rows: RowStore
    columns: tuple[int, ...]
    formats: tuple[ColumnFormat, ...]
    notes: list[str] = field(default_factory=list)
    title: str = ""

    @classmethod
    def from_table(cls, table: Table) -> TableFile:
        """Return a table that is in memory already, such as one of a data frame; it has no file."""
        rows = RowStore()
        for number, row in enumerate(table.rows, 1):
            rows.add(number, [cell.text for cell in row])
        header = tuple(cell.text for cell in table.header)
        return cls(Path(table.table_id), header, rows, tuple(range(len(header))), table.formats, title=table.title)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows, each as wide as the header."""
        return map(self._row, self.rows)

    def row(self, place: int) -> tuple[str, ...]:
        """Return the row at a place, from 0."""
        return self._row(self.rows[place])

    def table(self, places: Sequence[int] | None = None, columns: Sequence[int] | None = None) -> Table:
        """Return the table, or only its rows and columns at some places (from 0)."""
        rows = self if places is None else map(self.row, places)
        kept = range(len(self.header)) if columns is None else columns
        header, *body = (tuple(Cell(row[column]) for column in kept) for row in (self.header, *rows))
        formats = tuple(self.formats[column] for column in kept)
        return Table(self.path.name, header, tuple(body), title=self.title, formats=formats)

    def _row(self, cells: Sequence[str]) -> tuple[str, ...]:
        return tuple(cells[column] if column < len(cells) else "" for column in self.columns)
