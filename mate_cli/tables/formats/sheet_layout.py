"""Layout of a sheet of .xlsx that calamine does not tell: number formats, formulas, errors, what is hidden, the size.

Source: ECMA-376 part 1, sections 18.2 (workbooks), 18.3 (sheets), 18.8 (styles); part 2 (relationships).
"""

from __future__ import annotations

import posixpath
import zipfile
from array import array
from collections.abc import Mapping
from functools import lru_cache, partial, reduce
from pathlib import Path
from typing import IO
from xml.etree import ElementTree
from xml.parsers import expat

from mate_cli.tables.formats.number_format import BUILTIN, GENERAL
from mate_cli.tables.read_options import Limits

CONTENT = "content.xml"
"""Part of .ods that has all sheets."""
MAX_DEPTH = 50
"""XML elements in each other."""


class SheetLayout:
    """Layout of the cells of a sheet, rows and columns from 0, from the XML of the sheet.

    It is filled from the elements as they begin; texts are read of errors alone.

    Attributes:
        formats: for each row twice the number of each cell's style, and one more for a formula.
        errors: error values such as #DIV/0!, by row and column.
        hidden_rows: rows that are hidden.
        hidden_columns: columns that are hidden.

    Raises:
        DataError: the sheet is too large.
        ValueError: it is damaged.
    """

    def __init__(self, file: IO[bytes], path: Path, limits: Limits) -> None:
        self.formats: dict[int, array[int]] = {}
        self.errors: dict[tuple[int, int], str] = {}
        self.hidden_rows, self.hidden_columns = set[int](), set[int]()
        self._check, self._limits, self._cells = partial(limits.check, path), limits, array("L")
        self._row, self._column, self._width, self._depth = -1, -1, 0, 0
        self._kind, self._is_error = "", False
        parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler, parser.buffer_text = self._add_text, True
        parser.ParseFile(file)

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise RecursionError
        name = name.rpartition(":")[2]
        self._is_error = name == "v" and self._kind == "e"
        if name == "c":
            self._add_cell(attributes)
        elif name == "f" and self._cells and self._kind != "str":
            self._cells[-1] |= 1
        elif name == "row":
            number = attributes.get("r", "")
            self._row, self._column = int(number) - 1 if number.isdecimal() else self._row + 1, -1
            self._check(rows=self._row, cells=self._width * (self._row + 1))
            self._cells = self.formats[self._row] = array("L")
            if attributes.get("hidden") in ("1", "true"):
                self.hidden_rows.add(self._row)
        elif name == "col" and attributes.get("hidden") in ("1", "true"):
            first, last = int(attributes.get("min", 1)), int(attributes.get("max", 1))
            self.hidden_columns.update(range(first - 1, min(last, self._limits.columns)))

    def _add_cell(self, attributes: Mapping[str, str]) -> None:
        column = column_number(attributes.get("r", "").rstrip("0123456789")) - 1
        self._column = column = self._column + 1 if column < 0 else column
        if column >= self._width:
            self._width = column + 1
            self._check(rows=self._row, columns=self._width, cells=self._width * (self._row + 1))
        style, self._kind = attributes.get("s", ""), attributes.get("t", "")
        self._cells.extend([0] * (column + 1 - len(self._cells)))
        self._cells[column] = 2 * int(style) if style.isdecimal() and len(style) < 6 else 0

    def _add_text(self, text: str) -> None:
        if self._is_error:
            self.errors.setdefault((self._row, self._column), text.strip())

    def _end(self, _: str) -> None:
        self._depth -= 1


class OpenLayout(SheetLayout):
    """Layout of a sheet of .ods, of which only errors and what is hidden are known."""

    def __init__(self, name: str, file: IO[bytes], path: Path, limits: Limits) -> None:
        self._name, self._is_sheet, self._repeated = name, False, {"table-row": 1, "table-cell": 1}
        super().__init__(file, path, limits)

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise RecursionError
        name = name.rpartition(":")[2].removeprefix("covered-")
        rows, columns = (int(attributes.get(f"table:number-{kind}-repeated", 1)) for kind in ("rows", "columns"))
        is_hidden = attributes.get("table:visibility", "visible") != "visible"
        if name == "table":
            self._is_sheet = attributes.get("table:name") == self._name
            self._width, self._row, self._repeated["table-row"] = 0, -1, 1
        elif name == "table-column" and self._is_sheet:
            self._width += columns
            if is_hidden:
                self.hidden_columns.update(range(self._width - columns, min(self._width, self._limits.columns)))
        elif name == "table-row" and self._is_sheet:
            self._row += self._repeated[name]
            self._column, self._repeated = -1, {name: rows, "table-cell": 1}
            if is_hidden:
                self.hidden_rows.update(range(self._row, min(self._row + rows, self._limits.rows)))
        elif name == "table-cell" and self._is_sheet:
            self._column += self._repeated[name]
            self._repeated[name] = columns
            self._is_error = attributes.get("office:string-value") == ""


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
    return reduce(lambda number, letter: 26 * number + ord(letter) - 64, letters[:4].upper(), 0)
