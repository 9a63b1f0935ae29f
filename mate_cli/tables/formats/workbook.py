"""Workbooks: one sheet as lines of the texts that its cells show, with stored numbers.

Calamine reads the values of .xlsx, .xlsm, .xlsb, .xls and .ods. `sheet_layout` reads the number formats of .xlsx, and
hidden rows and columns. Formulas have the values that were saved with them.
"""

from __future__ import annotations

import datetime
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

from mate_cli.errors import DataError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.files.workbook_repair import repair_workbook
from mate_cli.tables.formats.cell_text import count_noun, list_names, spreadsheet_date, spreadsheet_text
from mate_cli.tables.formats.number_format import GENERAL, format_date, format_number
from mate_cli.tables.formats.sheet_layout import (
    CONTENT,
    SheetLayout,
    find_parts,
    read_layout,
    read_old_errors,
    read_open_layout,
)
from mate_cli.tables.read_options import MEGABYTE, Limits, ReadOptions
from mate_cli.tables.table import Grid

SEARCHED_ROWS = 100
"""Number of first rows of a sheet that are searched for a table."""
MAX_AREA = 10_000
"""Maximum number of cells of a merged area that is part of a table."""
HIDDEN, MERGED, UNSAVED = "hidden row", "merged area", "formula without a saved value"
"""Types of unusual cells, which are counted for the notes on reading. The values are their names in the notes."""
XLS_START, ENCRYPTED = b"\xd0\xcf\x11\xe0", "EncryptedPackage".encode("utf-16-le")
"""First bytes of an .xls file, and the name of the part that contains an encrypted workbook."""
_DURATION = re.compile(r"(-?)P(?:(\d+)D)?T(\d+)H(\d+)M(\d+(?:\.\d+)?)S")
SAVE_AS = "Open it in a spreadsheet program and save it as .xlsx"


def read_workbook(path: Path, options: ReadOptions) -> Grid:
    """Open one sheet of a workbook. Every cell of a merged area has the value of the area.

    Raises:
        DataError: when the lines are read, if the file is damaged, has a password, is not a workbook or has no such
            sheet.
    """
    notes = list[str]()
    return Grid(_lines(path, options, notes), notes=notes)


class Workbook:
    """A workbook in any format that calamine reads.

    Attributes:
        visible: names of the visible worksheets.
        hidden: names of the hidden worksheets.
        is_open: whether the file is an OpenDocument.
        errors: error values of the sheets of an .xls file, by name and by (row, column).
    """

    def __init__(self, path: Path, limits: Limits) -> None:
        from python_calamine import CalamineError, PasswordError, SheetTypeEnum, SheetVisibleEnum, load_workbook

        self.path, self.limits, self.archive = path, limits, None
        content = path.read_bytes()
        # `is_zipfile` is no test: an .xls file of newer programs contains a small archive.
        if content.startswith(b"PK"):
            self.archive = archive = zipfile.ZipFile(path)
            limits.check(path, megabytes=sum(part.file_size for part in archive.infolist()) / MEGABYTE)
            if not any(name.lower().endswith(("workbook.xml", "workbook.bin", CONTENT)) for name in archive.namelist()):
                problem = "this is an archive (.zip) without a workbook"
                raise DataError(problem, where=str(path), remedy="Unpack it first, or save the table as .xlsx")
        self.is_open = self.archive is not None and CONTENT in self.archive.namelist()
        # Calamine reports the password of such a file only if it opens the file by name.
        is_named = path.suffix.lower() == (".xls" if content.startswith(XLS_START) else ".ods" if self.is_open else "")
        try:
            self.values = load_workbook(repair_workbook(self.archive) or (path if is_named else BytesIO(content)))
            self.parts, self.codes = find_parts(self.archive) if self.archive else ({}, {})
        except CalamineError as error:
            if isinstance(error, PasswordError) or ENCRYPTED in content:
                hint = "Open it in a spreadsheet program and save it without a password"
                raise DataError("this workbook has a password", where=str(path), remedy=hint) from error
            raise
        sheets = [sheet for sheet in self.values.sheets_metadata if sheet.typ is SheetTypeEnum.WorkSheet]
        self.errors = dict(zip([sheet.name for sheet in sheets], read_old_errors(content), strict=False))
        self.visible = [sheet.name for sheet in sheets if sheet.visible is SheetVisibleEnum.Visible]
        self.hidden = [sheet.name for sheet in sheets if sheet.visible is not SheetVisibleEnum.Visible]


class Sheet:
    """The cells of a sheet as texts. Cells with a stored number are `NumberText`.

    Attributes:
        values: the sheet as read by calamine.
        layout: the layout that calamine does not report.
        width: number of columns, including those before the first value.

    Raises:
        DataError: the sheet exceeds a limit.
    """

    def __init__(self, book: Workbook, name: str) -> None:
        part = CONTENT if book.is_open else book.parts.get(name, "")
        self.layout, self.has_layout = SheetLayout(errors=book.errors.get(name, {})), bool(part)
        if book.archive and part:
            with book.archive.open(part) as file:
                self.layout = read_open_layout(name, file) if book.is_open else read_layout(file)
        self.values, self._codes, self._limits = book.values.get_sheet_by_name(name), book.codes, book.limits
        height, self.width = (index + 1 for index in self.values.end or (-1, -1))
        book.limits.check(book.path, rows=height, columns=self.width)

    def has_rows(self, count: int) -> bool:
        """Return whether at least `count` of the first rows have at least `count` cells that are not empty.

        This detects sheets with a table: a cover sheet rarely has two rows with two cells.
        """
        rows = islice(self.values.iter_rows(), SEARCHED_ROWS)
        return sum(sum(value != "" for value in row) >= count for row in rows) >= count

    def lines(self, count: Counter[str]) -> list[list[str]]:
        """Return the texts of each row, with the value of a merged area in each of its cells.

        A text that is alone in its row is not copied to other columns, because it may be a title.

        Args:
            count: counter of unusual cells, which is updated.
        """
        lines, room = list(self._plain_lines(count)), self._limits.cells
        filled = [sum(map(bool, line)) for line in lines]
        for (upper, start), (bottom, end) in self.values.merged_cell_ranges or ():
            size, first = (bottom + 1 - upper) * (end + 1 - start), next(iter(lines[upper : upper + 1]), [])
            room -= size
            if any(first[start : start + 1]) and size <= min(MAX_AREA, room) and (filled[upper] > 1 or start == end):
                count[MERGED] += 1
                for row in range(upper, min(bottom + 1, len(lines))):
                    line = lines[row] + [""] * (end + 1 - len(lines[row])) if filled[row] else []
                    lines[row] = [cell or (first[start] if start <= c <= end else "") for c, cell in enumerate(line)]
        count[HIDDEN] += sum(filled[row] > 0 for row in self.layout.hidden_rows if row < len(filled))
        return lines

    def _plain_lines(self, count: Counter[str]) -> Iterator[list[str]]:
        for row, values in enumerate(self.values.to_python(skip_empty_area=False)):
            styles, errors, line = self.layout.formats.get(row, ()), self.layout.errors, list[str]()
            for column, value in enumerate(values):
                style = styles[column] if column < len(styles) else 0
                # A zero is the value of some errors. Errors of .xls files are uncertain, but have no value.
                if value == "" or (value == 0 and self.has_layout and (row, column) in errors):
                    line.append(errors.get((row, column), ""))
                    count[UNSAVED] += style & 1 if not line[-1] else 0
                else:
                    line.append(_show(value, self._codes.get(style >> 1, GENERAL)))
            yield line


def _lines(path: Path, options: ReadOptions, notes: list[str]) -> Iterator[list[str]]:
    with wrap_file_errors(path, DataError, "this workbook cannot be read", SAVE_AS):
        sheet = _choose(Workbook(path, options.limits), options.sheet, notes)
        if not (options.hidden or sheet.has_layout):
            problem = f"hidden=false is not available for {path.suffix.lower()} files"
            raise DataError(problem, where=str(path), remedy=f"{SAVE_AS} or .ods")
        rows, columns, count = sheet.layout.hidden_rows, sheet.layout.hidden_columns, Counter[str]()
        for row, line in enumerate(sheet.lines(count)):
            if options.hidden:
                yield line
            elif row not in rows:
                yield [cell for column, cell in enumerate(line) if column not in columns]
    numbers = {HIDDEN: count[HIDDEN], "hidden column": len(columns & {*range(sheet.width)})}
    if hidden := [count_noun(number, noun) for noun, number in numbers.items() if number]:
        verb = "read too (hidden=false leaves them out)" if options.hidden else "left out"
        notes.append(f"{' and '.join(hidden)} {verb}.")
    merged = f"The value of {count_noun(count[MERGED], MERGED)} was put in every cell of it."
    unsaved = "Some formulas have no saved value: open the file in a spreadsheet program and save it."
    notes += [note for note, kind in ((merged, MERGED), (unsaved, UNSAVED)) if count[kind]]


def _choose(book: Workbook, sheet: str | None, notes: list[str]) -> Sheet:
    """Open the requested sheet of a workbook, or by default the first sheet that has a table.

    Args:
        book: the workbook.
        sheet: name of the sheet, or its number from 1. None: the first sheet with a table, visible sheets first.
        notes: list to which a note on the other sheets is added.
    """
    sheets, groups, names = cache(partial(Sheet, book)), (book.visible, book.hidden), [*book.visible, *book.hidden]
    labels = {name: f"{name} (hidden)" if name in book.hidden else name for name in names}
    if sheet is None:
        tables = (n for group in groups for count in (2, 1) for n in group if sheets(n).has_rows(count))
        sheet_name = next(tables, None)
        problem, hint = "no sheet of this workbook has a table", "Give one with a header row and rows below it"
    else:
        by_number = {str(number): name for number, name in enumerate(names, 1)}
        sheet_name = (by_number | dict(zip(names, names, strict=True))).get(sheet)
        problem, hint = f"there is no sheet {sheet!r}", f"Sheets here: {', '.join(labels.values())}"
    if sheet_name is None:
        raise DataError(problem, where=str(book.path), remedy=hint)
    ignored = list_names(label for name, label in labels.items() if name != sheet_name)
    if ignored and sheet is None:
        notes.append(f"The sheet {sheet_name!r} was read; the workbook also has {ignored} (choose with sheet=...).")
    return sheets(sheet_name)


def _show(value: Any, code: str) -> str:  # noqa: ANN401 - any calamine value
    """Format a value from calamine as the spreadsheet shows it. Numbers become `NumberText`."""
    if isinstance(value, str):
        if match := _DURATION.fullmatch(value):
            days, hours, minutes, seconds = (float(part or 0) for part in match.groups()[1:])
            duration = datetime.timedelta(days, seconds, 0, 0, minutes, hours)
            return spreadsheet_date(-duration if match[1] else duration)
        return re.sub("\r\n?", "\n", value.replace("\0", ""))
    if isinstance(value, bool):
        return spreadsheet_text(value)
    return format_number(value, code) if isinstance(value, (int, float)) else format_date(value, code)
