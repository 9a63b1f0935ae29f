"""Excel's .xlsx: one sheet as lines of what its cells show; formulas give the values that were saved with them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, repeat
from pathlib import Path

from mate_cli.errors import DataError
from mate_cli.files.io_errors import wrap_read_errors
from mate_cli.tables.formats.grid import Grid, count_noun, list_names
from mate_cli.tables.formats.workbook import SAVE_AS, Area, Workbook, Worksheet
from mate_cli.tables.read_options import ReadOptions
from mate_cli.tables.table_file import RowStore

SEARCHED_ROWS = 100
"""Rows of a sheet in which its table is looked for."""


def read_spreadsheet(path: Path, options: ReadOptions) -> Grid:
    """Open one sheet of a workbook; a value stands in every cell of its merged area.

    Raises:
        DataError: it is damaged, something else, or has no such sheet.
    """
    grid = Grid([], omits_empty=True)
    grid.lines = _lines(path, options, grid)
    return grid


def _lines(path: Path, options: ReadOptions, grid: Grid) -> Iterator[list[str]]:
    notes = grid.notes
    with wrap_read_errors(path, DataError, "this workbook cannot be read", SAVE_AS):
        book = Workbook(path, options.limits)
        sheet = _choose(book, options.sheet, notes)
        rows = RowStore()
        for number, line in book.rows(sheet):
            rows.add(number, line)
        grid.numeric = book.numeric
        areas, last = list[Area](), 0
        for number, line in zip(rows.numbers, rows, strict=True):
            yield from repeat([], number - last - 1)
            areas = [area for area in areas if area.bottom >= number] + book.merged.get(number, [])
            if areas:
                _fill(line, areas, book.merged.get(number, []))
            yield line
            last = number
    filled = sum(bool(area.text) for row in book.merged.values() for area in row)
    if filled:
        notes.append(f"The value of {count_noun(filled, 'merged area')} was put in every cell of it.")
    if book.has_unsaved:
        notes.append("Some formulas have no saved value: open the file in a spreadsheet program and save it.")


def _choose(book: Workbook, wanted: str | None, notes: list[str]) -> Worksheet:
    """Return the sheet of that name or number, else the first one with a table; hidden ones come last."""
    sheets = sorted(book.sheets, key=lambda sheet: sheet.is_hidden)
    names = {sheet: f"{sheet.name} (hidden)" if sheet.is_hidden else sheet.name for sheet in sheets}
    if wanted is None:
        places = ((hidden, least, sheet) for hidden in (False, True) for least in (2, 1) for sheet in sheets)
        found = (
            sheet for hidden, least, sheet in places if sheet.is_hidden is hidden and _has_rows(book, sheet, least)
        )
        chosen = next(found, None)
        problem, remedy = "this workbook is empty", "Give one with a header row and rows below it"
    else:
        numbers = {str(number): sheet for number, sheet in enumerate(sheets, 1)}
        chosen = next((sheet for sheet in sheets if sheet.name == wanted), numbers.get(wanted))
        problem, remedy = f"there is no sheet {wanted!r}", f"Sheets here: {', '.join(names.values())}"
    if chosen is None:
        raise DataError(problem, where=str(book.path), remedy=remedy)
    others = [name for sheet, name in names.items() if sheet is not chosen]
    if others and wanted is None:
        notes.append(
            f"The sheet {chosen.name!r} was read; the workbook also has {list_names(others)} (choose with sheet=...)."
        )
    return chosen


def _has_rows(book: Workbook, sheet: Worksheet, least: int) -> bool:
    """Tell whether so many of the first rows have so many cells; of a cover sheet hardly two have two."""
    rows = islice(book.rows(sheet), SEARCHED_ROWS)
    return sum(sum(map(bool, line)) >= least for _, line in rows) >= least


def _fill(line: list[str], areas: list[Area], new: list[Area]) -> None:
    """Put the values of merged areas into a line that has other values; a text alone in its line may be a title."""
    count = sum(map(bool, line))
    for area in new:
        if area.left <= len(line) and (count > 1 or area.left == area.right):
            area.text = line[area.left - 1]
    for area in areas if count else ():
        if area.text:
            line += [""] * (area.right - len(line))
            for place in range(area.left - 1, area.right):
                line[place] = line[place] or area.text
