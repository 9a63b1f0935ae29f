"""Tables with linked passages, raw grids of cells, and tables as read from files."""

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
    """A table cell: its text, and links to passages about it.

    Args:
        text: text of the cell.
        links: keys of the passages in `Table.passages` that the cell links to.
    """

    text: str
    links: tuple[str, ...] = ()


@runtime_checkable
class DataFrame(Protocol):
    """The attributes of a pandas data frame that `Table.from_pandas` reads."""

    columns: Any
    index: Any
    iloc: Any
    shape: Any


@dataclass(frozen=True, slots=True)
class Table:
    """A table of cells: a header and body rows, each with as many cells as the header.

    Args:
        table_id: name of the table in its dataset.
        header: one cell per column.
        rows: body rows. Row 0 is the first row below the header.
        title: title of the table or its page.
        section_title: title of the section of the page that contains the table, or the caption of the table.
        section_text: text of that section.
        intro: introduction of the page.
        passages: text of each linked passage, by link.
        formats: format of the numbers of each column. Empty for tables of datasets: TAPAS's rules read their numbers.
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
        """Create a table from a pandas data frame, with values formatted as in a spreadsheet.

        Missing values become empty cells. Named levels of the index become columns, unnamed levels are omitted. The
        levels of a column name are joined by spaces.

        Args:
            frame: the data frame.
            title: title of the table.
            table_id: name of the table.
        """
        levels = [index for index, name in enumerate(frame.index.names) if name is not None]
        names = [*(frame.index.names[index] for index in levels), *frame.columns]
        columns = [frame.index.get_level_values(index) for index in levels]
        # Index by position: column names may be duplicates.
        columns += [frame.iloc[:, index] for index in range(frame.shape[1])]
        parts = (name if isinstance(name, tuple) else (name,) for name in names)
        header = tuple(Cell(" ".join(filter(None, map(spreadsheet_text, levels)))) for levels in parts)
        rows = tuple(tuple(map(Cell, row)) for row in zip(*map(_column_texts, columns), strict=True))
        table = cls(table_id, header, rows, title=title)
        return replace(table, formats=find_table_formats(table))

    def has_cell(self, row: int, column: int) -> bool:
        """Return whether the table has a body cell at (row, column), both from 0."""
        return 0 <= row < len(self.rows) and 0 <= column < len(self.header)

    def cells(self) -> Iterator[tuple[int, int, Cell]]:
        """Yield (row, column, cell) of the body cells, row by row. Both indices start at 0."""
        for row_index, row in enumerate(self.rows):
            for column_index, cell in enumerate(row):
                yield row_index, column_index, cell


def find_table_formats(table: Table) -> tuple[ColumnFormat, ...]:
    """Infer the number and date format of each column of a user table."""
    names = [cell.text for cell in table.header]
    columns = [collect_evidence(row[column].text for row in table.rows) for column in range(len(names))]
    return find_formats(names, columns)[0]


def _column_texts(column: Any) -> list[str]:  # noqa: ANN401 - pandas Series or Index
    values, kind = column.array, column.dtype
    if hasattr(kind, "categories"):
        texts = ["", *_column_texts(kind.categories)]
        return [texts[code + 1] for code in values.codes]
    if hasattr(kind, "pyarrow_dtype") and kind.kind == "f":
        values = column.to_numpy(kind.numpy_dtype, na_value=math.nan)
    return ["" if is_null else spreadsheet_text(value) for value, is_null in zip(values, column.isna(), strict=True)]


@dataclass
class Grid:
    """Lines of cell texts read from a table file, in which the header is not yet identified.

    Args:
        lines: cells of each line. The number of cells may vary.
        header: column names if the format defines them, complete after all lines are read. None if the header is
            among the first lines.
        has_commas: whether commas separate the cells, so that a decimal comma may have split a number.
        notes: notes on reading, as sentences, complete after all lines are read.
    """

    lines: Iterable[list[str]]
    header: list[str] | None = None
    has_commas: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass
class TableFile:
    """A table read from a file, with row numbers, column formats and notes.

    Args:
        path: path of the file.
        header: unique names of the C columns.
        rows: body rows that are not blank, each with C cells.
        numbers: number of each row, counted from 1 below the header, blank rows included.
        formats: number and date format of each of the C columns.
        notes: notes on reading, as sentences.
        title: text of the lines above the table.
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
        """Wrap a table in memory, such as one from a data frame. Its path is its `table_id`."""
        header, *rows = (tuple(cell.text for cell in row) for row in (table.header, *table.rows))
        return cls(Path(table.table_id), header, rows, range(1, len(rows) + 1), table.formats, title=table.title)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Yield the body rows, each as a tuple of cell texts."""
        return iter(self.rows)

    def row(self, index: int) -> tuple[str, ...]:
        """Return the body row at index `index` (from 0)."""
        return self.rows[index]

    def table(self, row_indices: Sequence[int] | None = None, columns: Sequence[int] | None = None) -> Table:
        """Return a `Table` of all rows and columns of the file, or of a selection.

        Args:
            row_indices: row indices, from 0. All rows by default.
            columns: column indices, from 0. All columns by default.
        """
        rows = self if row_indices is None else map(self.row, row_indices)
        indices = range(len(self.header)) if columns is None else columns
        header, *body = (tuple(Cell(row[column]) for column in indices) for row in (self.header, *rows))
        formats = tuple(self.formats[column] for column in indices)
        return Table(self.path.name, header, tuple(body), title=self.title, formats=formats)
