"""The table of an example in the terminal, with marks behind the cells that matter."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.table import Column, Table
from rich.text import Text

from mate_cli.reports.format import plural
from mate_cli.tables.example import Coordinates, TableExample
from mate_cli.tables.table import Cell
from mate_cli.tables.text import table_matches

IN_CELL, IN_PASSAGE, DROPPED = "bold black on green", "bold black on yellow", "dim strike"
MARKS = {
    "●": ("answer in the cell", IN_CELL),
    "○": ("answer in a linked passage", IN_PASSAGE),
    "◂": ("answer of the question before", "underline"),
    "✂": ("cut", DROPPED),
    "↗": ("has links", ""),
}
"""Marks behind a cell's text: their meaning, and the cell's style."""
MAX_ROWS = 40
"""So many rows of a table are shown, beside those that hold an answer."""
MIN_COLUMN_WIDTH = 9
"""A column with its border is at least so wide; a table with more columns is shown in parts."""

Place = tuple[int, int]


def table_views(example: TableExample, encoded_cells: Collection[Place], width: int) -> Iterator[Table]:
    """Yield the table in one part, or in several of fewer columns where it is too wide.

    Rows are numbered from 1, as the row ids of tokens are.

    Args:
        example: the example.
        encoded_cells: (row, column) of the body cells that have tokens.
        width: of the terminal, in characters.
    """
    table, marks = example.table, _marks(example, encoded_cells)
    most = max(2, (width - MIN_COLUMN_WIDTH) // MIN_COLUMN_WIDTH)
    parts = range(0, len(table.header), most)
    for start in parts:
        columns = range(len(table.header))[start : start + most]
        where = f"columns {columns[0] + 1} to {columns[-1] + 1} of {len(table.header)}" if len(parts) > 1 else ""
        title = Text(", ".join(filter(None, (table.title, where))))
        yield _part(example, columns, title if title.plain else None, marks)


def legend(example: TableExample, encoded_cells: Collection[Place]) -> Text | None:
    """Return what the marks mean that stand behind cells; None without any."""
    used = {mark for marks in _marks(example, encoded_cells).values() for mark in marks}
    named = [Text(f" {mark} {meaning} ", style=style) for mark, (meaning, style) in MARKS.items() if mark in used]
    return Text("  ").join(named) if named else None


def _part(
    example: TableExample, columns: Sequence[int], title: Text | None, marks: Mapping[Place, Sequence[str]]
) -> Table:
    table = example.table
    headings = (Column(Text(table.header[column].text), overflow="fold") for column in columns)
    view = Table(Column("row", no_wrap=True), *headings, title=title)
    shown = _shown_rows(example)
    for before, r in zip((-1, *shown), shown, strict=False):
        if r - before > 1:
            view.add_row(Text("…", style="dim"), Text(plural(r - before - 1, "more row"), style="dim"))
        cells = (_cell_view(table.rows[r][c], marks[r, c]) for c in columns)
        view.add_row(Text(str(r + 1), style="dim"), *cells)
    return view


def _shown_rows(example: TableExample) -> list[int]:
    """Return all rows of a table that is not too long, else the first ones, those with answers, and the last one."""
    rows = range(len(example.table.rows))
    coordinates: Coordinates = (example.answer.coordinates if example.answer else ()) + example.previous_cells
    return sorted({*rows[:MAX_ROWS], *(row for row, _ in coordinates), *rows[-1:]})


def _marks(example: TableExample, encoded_cells: Collection[Place]) -> dict[Place, list[str]]:
    """Return the marks of each body cell that is shown."""
    answer_marks, table = _found(example), example.table
    return {
        (r, c): [
            *("↗" * bool(table.rows[r][c].links)),
            *answer_marks.get((r, c), ""),
            *("◂" * ((r, c) in example.previous_cells)),
            *("✂" * ((r, c) not in encoded_cells)),
        ]
        for r in _shown_rows(example)
        for c in range(len(table.header))
    }


def _found(example: TableExample) -> dict[Place, str]:
    """Give the mark of each cell of the answer: whether it holds the answer itself, or links to a passage that does."""
    answer, table = example.answer, example.table
    if answer is None:
        return {}
    if not table.passages:
        return dict.fromkeys(answer.coordinates, "●")
    inside = {cell for text in answer.texts for cell in table_matches(table, text)}
    return {cell: "●" if cell in inside else "○" for cell in answer.coordinates}


def _cell_view(cell: Cell, marks: Sequence[str]) -> Text:
    return Text(" ".join((cell.text, *marks)), style=" ".join(MARKS[mark][1] for mark in marks).strip())
