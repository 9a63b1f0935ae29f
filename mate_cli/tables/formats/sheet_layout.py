"""Layout of a sheet of .xlsx that calamine does not tell: number formats, formulas, errors, what is hidden, the size.

Source: ECMA-376 part 1, sections 18.2 (workbooks), 18.3 (sheets), 18.8 (styles); part 2 (relationships).
"""

from __future__ import annotations

import posixpath
import zipfile
from array import array
from collections.abc import Mapping
from functools import lru_cache, reduce
from io import BytesIO
from typing import IO
from xml.etree import ElementTree
from xml.parsers import expat

from mate_cli.tables.formats.number_format import BUILTIN, GENERAL

TABLE, OFFICE = (f"{{urn:oasis:names:tc:opendocument:xmlns:{name}:1.0}}" for name in ("table", "office"))
CONTENT = "content.xml"
"""Part of .ods that has all sheets."""
MAX_ROWS, MAX_COLUMNS = 1 << 20, 1 << 14
"""Rows and columns of a sheet that a spreadsheet program can hide."""


class SheetLayout:
    """Layout of the cells of a sheet, rows and columns from 0, from the XML of the sheet.

    It is filled from the elements as they begin; texts are read of errors alone.

    Attributes:
        formats: for each row twice the number of each cell's style, and one more for a formula.
        errors: error values such as #DIV/0!, by row and column.
        hidden_rows: rows that are hidden.
        hidden_columns: columns that are hidden.

    Raises:
        ValueError: the sheet is damaged.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.formats: dict[int, array[int]] = {}
        self.errors: dict[tuple[int, int], str] = {}
        self.hidden_rows, self.hidden_columns = set[int](), set[int]()
        self._row, self._column, self._cells, self._kind, self._is_error = -1, -1, array("L"), "", False
        parser = expat.ParserCreate()
        parser.StartElementHandler, parser.CharacterDataHandler = self._start, self._add_text
        parser.buffer_text = True
        parser.ParseFile(file)

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        name = name.rpartition(":")[2]
        self._is_error = name == "v" and self._kind == "e"
        if name == "c":
            self._add_cell(attributes)
        elif name == "f" and self._cells and self._kind != "str":
            self._cells[-1] |= 1
        elif name == "row":
            number = attributes.get("r", "")
            self._row, self._column = int(number) - 1 if number.isdecimal() else self._row + 1, -1
            self._cells = self.formats[self._row] = array("L")
            if attributes.get("hidden") in ("1", "true"):
                self.hidden_rows.add(self._row)
        elif name == "col" and attributes.get("hidden") in ("1", "true"):
            first, last = int(attributes.get("min", 1)), int(attributes.get("max", 1))
            self.hidden_columns.update(range(first - 1, min(last, MAX_COLUMNS)))

    def _add_cell(self, attributes: Mapping[str, str]) -> None:
        column = column_number(attributes.get("r", "").rstrip("0123456789")) - 1
        self._column = column = self._column + 1 if column < 0 else column
        style, self._kind = attributes.get("s", ""), attributes.get("t", "")
        self._cells.extend([0] * (column + 1 - len(self._cells)))
        self._cells[column] = 2 * int(style) if style.isdecimal() and len(style) < 6 else 0

    def _add_text(self, text: str) -> None:
        if self._is_error:
            self.errors.setdefault((self._row, self._column), text.strip())


class OpenLayout(SheetLayout):
    """Layout of a sheet of .ods, of which only errors and what is hidden are known."""

    def __init__(self, name: str, file: IO[bytes]) -> None:
        super().__init__(BytesIO(b"<nothing/>"))
        tables = ElementTree.parse(file).iter(f"{TABLE}table")
        table = next(table for table in tables if table.get(f"{TABLE}name") == name)
        for hidden, kind, most in ((self.hidden_rows, "row", MAX_ROWS), (self.hidden_columns, "column", MAX_COLUMNS)):
            end = 0
            for element in table.iter(f"{TABLE}table-{kind}"):
                start, end = end, end + _count_repeats(element, kind)
                if element.get(f"{TABLE}visibility", "visible") != "visible":
                    hidden.update(range(start, min(end, most)))
                self._add_errors(element, start)

    def _add_errors(self, cells: ElementTree.Element, row: int) -> None:
        column = 0
        for cell in cells:
            if cell.get(f"{OFFICE}string-value") == "":
                self.errors[row, column] = cell.findtext("{*}p", "")
            column += _count_repeats(cell, "column")


def _count_repeats(element: ElementTree.Element, kind: str) -> int:
    return int(element.get(f"{TABLE}number-{kind}s-repeated", 1))


def find_parts(archive: zipfile.ZipFile) -> tuple[dict[str, str], dict[int, str]]:
    """Find the part of each sheet by the sheet's name, and the number format of each style by the style's number."""
    roots = (name for name in archive.namelist() if name.endswith("workbook.xml"))
    folder, name = posixpath.split(max(roots, key=lambda name: name.startswith("xl/"), default=""))
    references = _parse(archive, posixpath.join(folder, "_rels", f"{name}.rels"))
    parts = {r.get("Id"): posixpath.join("/", folder, r.get("Target", "")) for r in references}
    sheets = {}
    for sheet in _parse(archive, posixpath.join(folder, name)).iterfind(".//{*}sheet"):
        place = next((value for key, value in sheet.items() if key.endswith("}id")), None)
        sheets[sheet.get("name", "")] = posixpath.normpath(parts.get(place, "")).lstrip("/.")
    tree, codes = _parse(archive, posixpath.join(folder, "styles.xml")), dict(BUILTIN)
    codes |= {new.get("numFmtId", ""): new.get("formatCode") or GENERAL for new in tree.iterfind(".//{*}numFmt")}
    styles = tree.iterfind("{*}cellXfs/{*}xf")
    return sheets, dict(enumerate(codes.get(style.get("numFmtId", ""), GENERAL) for style in styles))


def _parse(archive: zipfile.ZipFile, part: str) -> ElementTree.Element:
    return ElementTree.fromstring(archive.read(part) if part in archive.namelist() else "<nothing/>")


@lru_cache
def column_number(letters: str) -> int:
    """Return the number of a column, from 1, by its letters such as AB; 0 where it has none."""
    return reduce(lambda number, letter: 26 * number + ord(letter) - 64, letters[:3].upper(), 0)
