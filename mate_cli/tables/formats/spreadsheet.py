"""Excel's .xlsx, streamed; formulas give the values that the spreadsheet program saved with them."""

from __future__ import annotations

import datetime
import re
import warnings
import zipfile
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any, BinaryIO

from mate_cli.errors import DataError, MissingDependencyError
from mate_cli.files.door import reading
from mate_cli.tables.formats.cell_text import spreadsheet_text
from mate_cli.tables.formats.grid import Grid, listed, numbered
from mate_cli.tables.formats.number_format import formatted_date, formatted_number
from mate_cli.tables.limits import MEGABYTE, Limits
from mate_cli.tables.read_options import ReadOptions

DAMAGED = "this workbook cannot be read", "Open it in a spreadsheet program and save it again"
_MERGED = re.compile(rb'<mergeCell\s[^<>]{0,100}?ref="([A-Z]+)(\d+):([A-Z]+)(\d+)"')
_UNSAVED = re.compile(rb"</f>\s{0,40}(?:<v\s?/>|<v></v>)?\s{0,40}</c>")
_CELL = re.compile(rb"<(?:\w+:)?c[\s/>]")
_CHUNK, _OVERLAP = 1 << 20, 200
SHEETS = "xl/worksheets/"
UNREAD = ("xl/media/", "xl/drawings/", "xl/embeddings/", "xl/pivot", "xl/externalLinks/", "xl/model/", "customXml/")
"""Where parts lie that nobody here reads."""
LARGEST_PART = 4 * MEGABYTE
"""Bytes of what describes a workbook, such as its styles: each of them becomes an object."""
LOOKED_AT = 100
"""Rows of a sheet in which its table is looked for."""
LARGEST_AREA = 10_000
"""Cells of a merged area; larger ones are no part of a table."""
MOST_AREAS = 200_000
"""Merged areas of a sheet."""
MOST_MERGED = 1_000_000
"""Cells of all of them."""
Merged = dict[tuple[int, int], tuple[int, int]]
"""The first cell of each merged area by every cell of it; (row, column), both from 1."""


def read_spreadsheet(path: Path, options: ReadOptions) -> Grid:
    """Open one sheet of a workbook; a value stands in every cell of its merged area.

    Raises:
        DataError: it is damaged, or has no such sheet.
        MissingDependencyError: openpyxl is not installed.
    """
    notes: list[str] = []
    return Grid(_lines(path, options.sheet, notes, options.limits), notes=notes, omits_empty=True)


def _open(file: BinaryIO, path: Path) -> Any:  # noqa: ANN401 - openpyxl has no types
    try:
        import openpyxl
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{path.name}: .xlsx files are read by the package openpyxl",
            remedy="pip install 'mate-cli[spreadsheets]', or save the sheet as CSV",
        ) from error
    with reading(path, DataError, *DAMAGED), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)


def _choose(book: Any, wanted: str | None, path: Path, notes: list[str]) -> Any:  # noqa: ANN401
    names = [sheet.title for sheet in book.worksheets]
    if wanted is not None:
        if wanted in names:
            return book[wanted]
        numbered = {str(number): sheet for number, sheet in enumerate(book.worksheets, 1)}
        if wanted in numbered:
            return numbered[wanted]
        raise DataError(f"there is no sheet {wanted!r}", where=str(path), remedy=f"Sheets here: {', '.join(names)}")
    found = next(filter(_holds_table, book.worksheets), None) or next(filter(_filled_rows, book.worksheets), None)
    if found is None:
        raise DataError(
            "this workbook is empty", where=str(path), remedy="Give one with a header row and rows below it"
        )
    others = [name for name in names if name != found.title]
    if others:
        notes.append(f"The sheet {found.title!r} was read; there is also {listed(others)} (choose with sheet=...).")
    return found


def _holds_table(sheet: Any) -> bool:  # noqa: ANN401
    """Whether at least two of the first rows of a sheet have more than one cell; a cover sheet has not."""
    return len(_filled_rows(sheet, 2)) > 1


def _filled_rows(sheet: Any, cells: int = 1) -> list[Any]:  # noqa: ANN401
    """The first rows of a sheet that have so many cells that are not empty."""
    rows = islice(sheet.iter_rows(values_only=True), LOOKED_AT)
    return [row for row in rows if sum(value is not None for value in row) >= cells]


def _lines(path: Path, wanted: str | None, notes: list[str], limits: Limits) -> Iterator[list[str]]:
    with path.open("rb") as file:  # openpyxl refuses names that do not end as it expects, but no open file
        _check_size(file, path, limits)
        sheet = _choose(_open(file, path), wanted, path, notes)
        merged, unsaved = _look_behind(file, sheet)
        firsts = dict.fromkeys(merged.values(), "")
        sheet.reset_dimensions()
        for number, row in enumerate(sheet.iter_rows(), 1):
            line = [displayed_text(cell) for cell in row]
            yield _filled(line, number, merged, firsts) if merged else line
    filled = sum(map(bool, firsts.values()))
    if filled:
        notes.append(f"The value of {numbered(filled, 'merged area')} was put in every cell of it.")
    if unsaved:
        notes.append("Some formulas have no saved value: open the file in a spreadsheet program and save it.")


def _check_size(file: BinaryIO, path: Path, limits: Limits) -> None:
    """Refuse a workbook that would be too large unpacked; no more of a part is unpacked than it says it has."""
    with reading(path, DataError, *DAMAGED), zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
        limits.check_bytes(path, sum(part.file_size for part in parts))
        for part in parts:
            if part.filename.startswith(SHEETS):
                _check_sheet(archive, part.filename, path, limits)
            elif part.filename.endswith("sharedStrings.xml"):
                limits.check_bytes(path, part.file_size // 4, whole=True)
            elif not part.filename.startswith(UNREAD) and part.file_size > LARGEST_PART:
                what = f"{part.filename} in it has more than {LARGEST_PART // MEGABYTE} MB"
                raise DataError(what, where=str(path), remedy="Save the table as CSV")


def _check_sheet(archive: zipfile.ZipFile, name: str, path: Path, limits: Limits) -> None:
    """Refuse a sheet of which a row or a cell is too large; openpyxl has each of them in memory whole."""
    cells = text = 0
    with archive.open(name) as file:
        while piece := file.read(_CHUNK):
            first, *rows = piece.split(b"<row")
            text = len(piece) - piece.rfind(b"<") if b"<" in piece else text + len(piece)
            cells += len(_CELL.findall(first))
            limits.check(path, columns=cells)
            limits.check_bytes(path, text, whole=True)
            for row in rows:
                cells = len(_CELL.findall(row))
                limits.check(path, columns=cells)


def _filled(line: list[str], number: int, merged: Merged, firsts: dict[tuple[int, int], str]) -> list[str]:
    """A line with the values of merged areas, but for one that is alone in its line, such as a title."""
    alone = sum(map(bool, line)) == 1
    for column, text in enumerate(line, 1):
        if (number, column) in firsts and not alone:
            firsts[number, column] = text
        first = merged.get((number, column))
        if first and not text:
            line[column - 1] = firsts[first]
    return line


def displayed_text(cell: Any) -> str:  # noqa: ANN401
    """What a cell shows."""
    value = cell.value
    if value is None or isinstance(value, (str, bool)):
        return spreadsheet_text(value)
    if isinstance(value, (int, float)):
        return formatted_number(value, cell.number_format)
    if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
        return formatted_date(value, cell.number_format)
    return spreadsheet_text(value)


def _look_behind(file: BinaryIO, sheet: Any) -> tuple[Merged, bool]:  # noqa: ANN401
    """What a streaming reader does not see: merged areas, and whether there are formulas without a saved value."""
    from openpyxl.utils import column_index_from_string

    merged: Merged = {}
    place = str(getattr(sheet, "_worksheet_path", "")).lstrip("/")
    with zipfile.ZipFile(file) as archive:
        if place not in archive.namelist():
            return merged, False
        areas, unsaved = _scan(archive, place)
    for left, top, right, bottom in areas:
        columns = range(column_index_from_string(left.decode()), column_index_from_string(right.decode()) + 1)
        rows = range(int(top), int(bottom) + 1)
        if len(rows) * len(columns) <= LARGEST_AREA and len(merged) < MOST_MERGED:
            merged |= dict.fromkeys(product(rows, columns), (rows[0], columns[0]))
    return merged, unsaved


def _scan(archive: zipfile.ZipFile, place: str) -> tuple[set[tuple[bytes, ...]], bool]:
    found: set[tuple[bytes, ...]] = set()
    before, unsaved = b"", False
    with archive.open(place) as file:
        while piece := file.read(_CHUNK):
            piece = before + piece
            found |= set(_MERGED.findall(piece))
            if len(found) > MOST_AREAS:
                what = f"it has more than {MOST_AREAS:,} merged areas"
                raise DataError(what, where=str(archive.filename), remedy="Save the table as CSV")
            unsaved = unsaved or _UNSAVED.search(piece) is not None
            before = piece[-_OVERLAP:]
    return found, unsaved
