"""A table with linked passages, as the datasets' authors ship it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mate_cli.tables.formats.cell_text import spreadsheet_text


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

    @classmethod
    def from_pandas(cls, frame: Any, *, title: str = "", table_id: str = "table") -> Table:  # noqa: ANN401
        """Make a table of a data frame: values as a spreadsheet shows them, missing ones as empty cells.

        An index with names becomes columns, another one is left out.
        """
        named = [name for name in frame.index.names if name is not None]
        whole = frame.reset_index(level=named) if named else frame
        columns = [whole.iloc[:, place] for place in range(whole.shape[1])]  # names may stand twice
        texts = [
            [
                "" if missing else spreadsheet_text(value)
                for value, missing in zip(column.tolist(), column.isna(), strict=True)
            ]
            for column in columns
        ]
        header = tuple(Cell(str(name)) for name in whole.columns)
        rows = tuple(tuple(map(Cell, row)) for row in zip(*texts, strict=True))
        return cls(table_id, header, rows, title=title)

    def cells(self) -> Iterator[tuple[int, int, Cell]]:
        """Yield (row, column, cell) of the body, row by row; both indices start at 0."""
        for row_index, row in enumerate(self.rows):
            for column_index, cell in enumerate(row):
                yield row_index, column_index, cell
