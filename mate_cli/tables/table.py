"""A table with linked passages, as the datasets' authors ship it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mate_cli.tables.formats.cell_text import spreadsheet_text
from mate_cli.tables.values.column_evidence import collect_evidence
from mate_cli.tables.values.column_format import ColumnFormat, find_formats


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
    def from_pandas(cls, frame: Any, *, title: str = "", table_id: str = "table") -> Table:  # noqa: ANN401
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
        texts = _column_texts(kind.categories)
        return [texts[code] if code >= 0 else "" for code in values.codes]
    if hasattr(kind, "pyarrow_dtype") and kind.kind == "f":
        values = column.to_numpy(kind.numpy_dtype, na_value=math.nan)
    return ["" if missing else spreadsheet_text(one) for one, missing in zip(values, column.isna(), strict=True)]
