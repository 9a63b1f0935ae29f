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

_CHUNK = 1 << 16
MAX_DEPTH = 50
"""XML elements in each other."""


class SheetLayout:
    """Layout of the cells of a sheet, rows and columns from 0; empty where nothing is known.

    It is filled from the elements of a sheet as they begin; texts are read of errors alone.

    Attributes:
        formats: for each row twice the number of each cell's style, and one more for a formula.
        errors: error values such as #DIV/0!, by row and column.
        hidden_rows: rows that are hidden.
        hidden_columns: columns that are hidden.
        width: columns up to the last one with a cell.
    """

    def __init__(self, path: Path, limits: Limits) -> None:
        self.formats: dict[int, array[int]] = {}
        self.errors: dict[tuple[int, int], list[str]] = {}
        self.hidden_rows, self.hidden_columns = set[int](), set[int]()
        self.width, self._row, self._column, self._depth, self._is_text = 0, -1, -1, 0, False
        self._check, self._limits, self._cells = partial(limits.check, path), limits, array("L")
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._start, self._end
        self._parser.StartDoctypeDeclHandler = self._refuse

    def read(self, file: IO[bytes]) -> None:
        """Read the layout from the XML of the sheet.

        Raises:
            DataError: the sheet is too large.
            ValueError: it is damaged.
        """
        while piece := file.read(_CHUNK):
            self._parser.Parse(piece)
        self._parser.Parse(b"", True)

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise RecursionError
        if ":" in name:
            name = name.rpartition(":")[2]
        if name == "c":
            self._add_cell(attributes)
        elif name == "f" and self._cells and not self._is_text:
            self._cells[-1] |= 1
        elif name == "row":
            number = attributes.get("r", "")
            self._row, self._column = int(number) - 1 if number.isdecimal() else self._row + 1, -1
            self._cells = self.formats[self._row] = array("L")
            if attributes.get("hidden") in ("1", "true"):
                self.hidden_rows.add(self._row)
        elif name == "col" and attributes.get("hidden") in ("1", "true"):
            first, last = int(attributes.get("min", 1)), int(attributes.get("max", 1))
            self.hidden_columns.update(range(first - 1, min(last, self._limits.columns)))

    def _add_cell(self, attributes: Mapping[str, str]) -> None:
        column = column_number(attributes.get("r", "").rstrip("0123456789")) - 1
        self._column = column = self._column + 1 if column < 0 else column
        style, cells = attributes.get("s", ""), self._cells
        if column >= self.width:
            self.width = column + 1
            self._check(rows=self._row, columns=self.width, cells=self.width * (self._row + 1))
        cells.extend([0] * (column + 1 - len(cells)))
        cells[column] = 2 * int(style) if style.isdecimal() and len(style) < 6 else 0
        self._is_text = attributes.get("t") == "str"
        self._parser.CharacterDataHandler = None
        if attributes.get("t") == "e":
            self._parser.CharacterDataHandler = self.errors.setdefault((self._row, column), []).append

    def _end(self, name: str) -> None:
        self._depth -= 1
        if name[-3:] == "row":
            self._parser.CharacterDataHandler = None
            self._check(rows=self._row, cells=self.width * (self._row + 1))

    def _refuse(self, *_: object) -> None:
        raise ValueError("it has a DTD")


def find_parts(archive: zipfile.ZipFile) -> tuple[dict[str, str], list[str]]:
    """Find the part of each sheet by the sheet's name, and the number format of each style by the style's number.

    What is not found is left out.
    """
    roots = (name for name in archive.namelist() if name.lower().endswith("workbook.xml"))
    root = max(roots, key=lambda name: name.lower().startswith("xl/"), default="")
    folder, name = posixpath.split(root)
    targets, styles = dict[str, str](), ""
    for reference in _parse(archive, posixpath.join(folder, "_rels", f"{name}.rels")):
        part = posixpath.normpath(posixpath.join("/", folder, reference.get("Target", ""))).lstrip("/")
        targets[reference.get("Id", "")] = part
        if reference.get("Type", "").endswith("/styles"):
            styles = part
    sheets = {}
    for sheet in _parse(archive, root).iterfind(".//{*}sheet"):
        place = next((value for key, value in sheet.items() if key.endswith("}id")), "")
        sheets[sheet.get("name", "")] = targets.get(place, "")
    tree, codes = _parse(archive, styles), {str(number): code for number, code in BUILTIN.items()}
    codes |= {new.get("numFmtId", ""): new.get("formatCode") or GENERAL for new in tree.iterfind(".//{*}numFmt")}
    return sheets, [codes.get(cell.get("numFmtId", ""), GENERAL) for cell in tree.iterfind("{*}cellXfs/{*}xf")]


def _parse(archive: zipfile.ZipFile, part: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(archive.read(part))
    except (KeyError, ElementTree.ParseError):
        return ElementTree.Element("nothing")


@lru_cache
def column_number(letters: str) -> int:
    """Return the number of a column, from 1, by its letters such as AB; 0 where it has none."""
    is_name = letters.isascii() and letters.isalpha() and letters.isupper()
    return reduce(lambda number, letter: 26 * number + ord(letter) - 64, letters[:4], 0) if is_name else 0
