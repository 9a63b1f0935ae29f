"""Tables: with linked passages, as the datasets' authors ship them; as lines of cells; as files have them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from mate_cli.arguments import check_arguments
from mate_cli.tables.formats.cell_text import spreadsheet_text
from mate_cli.tables.values.column_evidence import collect_evidence
from mate_cli.tables.values.column_format import ColumnFormat, find_formats


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its text and the passages that it links to (keys of `Table.passages`)."""

    text: str
    links: tuple[str, ...] = ()


@runtime_checkable
class DataFrame(Protocol):
    """The attributes of a data frame of pandas that are read."""

    columns: Any
    index: Any
    iloc: Any
    shape: Any


@dataclass(frozen=True, slots=True)
class Table:
    """A header and body rows; every row has as many cells as the header.

    Args:
        table_id: the dataset's own name of the table.
        header: one cell per column.
        rows: body rows, row 0 being the first row below the header.
        passages: text of each linked passage, by link.
        formats: how each column writes numbers; none for tables of datasets, whose numbers TAPAS's rules read.
    """

    table_id: str
    header: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    section_title: str = ""
    section_text: str = ""
    intro: str = ""
    passages: Mapping[str, str] = field(default_factory=dict)
    formats: tuple[ColumnFormat, ...] = ()

    @classmethod
    @check_arguments
    def from_pandas(cls, frame: DataFrame, *, title: str = "", table_id: str = "table") -> Table:
        """Make a table of a data frame: values as a spreadsheet shows them, missing ones as empty cells.

        An index with names becomes columns, another one is left out; names of several levels are joined by spaces.
        """
        levels = [place for place, name in enumerate(frame.index.names) if name is not None]
        names = [*(frame.index.names[place] for place in levels), *frame.columns]
        columns = [frame.index.get_level_values(place) for place in levels]
        columns += [frame.iloc[:, place] for place in range(frame.shape[1])]  # names may stand twice
        header = tuple(Cell(column_name(name)) for name in names)
        rows = tuple(tuple(map(Cell, row)) for row in zip(*map(_column_texts, columns), strict=True))
        table = cls(table_id, header, rows, title=title)
        return replace(table, formats=find_table_formats(table))

    def has_cell(self, row: int, column: int) -> bool:
        """Tell whether row and column, both from 0, are of a body cell."""
        return 0 <= row < len(self.rows) and 0 <= column < len(self.header)

    def cells(self) -> Iterator[tuple[int, int, Cell]]:
        """Yield (row, column, cell) of the body, row by row; both indices start at 0."""
        for row_index, row in enumerate(self.rows):
            for column_index, cell in enumerate(row):
                yield row_index, column_index, cell


def find_table_formats(table: Table) -> tuple[ColumnFormat, ...]:
    """Decide how the columns of a table that people wrote state numbers."""
    names = [cell.text for cell in table.header]
    columns = [collect_evidence(row[column].text for row in table.rows) for column in range(len(names))]
    return find_formats(names, columns)[0]


def column_name(name: object) -> str:
    """Write the name of a column, whose levels are joined by spaces."""
    levels = name if isinstance(name, tuple) else (name,)
    return " ".join(filter(None, map(spreadsheet_text, levels)))


def _column_texts(column: Any) -> list[str]:  # noqa: ANN401 - a series, or an index
    values, kind = column.array, column.dtype
    if hasattr(kind, "categories"):
        texts = ["", *_column_texts(kind.categories)]
        return [texts[code + 1] for code in values.codes]
    if hasattr(kind, "pyarrow_dtype") and kind.kind == "f":
        values = column.to_numpy(kind.numpy_dtype, na_value=math.nan)
    return ["" if missing else spreadsheet_text(value) for value, missing in zip(values, column.isna(), strict=True)]


@dataclass
class Grid:
    """A file as lines of texts.

    Args:
        lines: the cells of each line; they may differ in number.
        header: names of the columns where the format knows them, complete once the lines are read; None where the
            first line has them.
        has_commas: commas part the cells, so that decimal commas may part numbers.
        notes: what was done, as plain sentences; complete once the lines are read.
    """

    lines: Iterable[list[str]]
    header: list[str] | None = None
    has_commas: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass
class TableFile:
    """A table as its file has it, with all that was found on reading.

    Args:
        path: where it was read from.
        header: a name for each of C columns; no two are alike.
        rows: the body rows that are not blank, each as wide as the header.
        numbers: of each row, its place below the header from 1, blank rows counted.
        formats: how each of them writes numbers.
        notes: what was done on reading, as plain sentences.
        title: a line that stood alone above the table.
    """

    path: Path
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: Sequence[int]
    formats: tuple[ColumnFormat, ...]
    notes: list[str] = field(default_factory=list)
    title: str = ""

    @classmethod
    def from_table(cls, table: Table) -> TableFile:
        """Return a table that is in memory already, such as one of a data frame; it has no file."""
        header, *rows = (tuple(cell.text for cell in row) for row in (table.header, *table.rows))
        return cls(Path(table.table_id), header, rows, range(1, len(rows) + 1), table.formats, title=table.title)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows."""
        return iter(self.rows)

    def row(self, place: int) -> tuple[str, ...]:
        """Return the row at a place, from 0."""
        return self.rows[place]

    def table(self, places: Sequence[int] | None = None, columns: Sequence[int] | None = None) -> Table:
        """Return the table, or only its rows and columns at some places (from 0)."""
        rows = self if places is None else map(self.row, places)
        chosen = range(len(self.header)) if columns is None else columns
        header, *body = (tuple(Cell(row[column]) for column in chosen) for row in (self.header, *rows))
        formats = tuple(self.formats[column] for column in chosen)
        return Table(self.path.name, header, tuple(body), title=self.title, formats=formats)
