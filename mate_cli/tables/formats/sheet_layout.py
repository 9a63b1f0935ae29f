"""Number formats, formulas, errors and hidden cells of sheets, which the library calamine does not report.

Source: ECMA-376 part 1, sections 18.2 (workbooks), 18.3 (sheets), 18.8 (styles); part 2 (relationships).
"""

from __future__ import annotations

import posixpath
import re
import struct
import zipfile
from array import array
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import IO
from xml.etree import ElementTree

from mate_cli.tables.formats.number_format import BUILTIN, GENERAL

TABLE, OFFICE = (f"{{urn:oasis:names:tc:opendocument:xmlns:{name}:1.0}}" for name in ("table", "office"))
CONTENT, TRUE = "content.xml", ("1", "true")
"""Part of an .ods file that contains all sheets, and the values of true in .xlsx."""
MAX_ROWS, MAX_COLUMNS = 1 << 20, 1 << 14
"""Maximum number of rows and of columns of a sheet that a spreadsheet program can hide."""
ERRORS = {0: "#NULL!", 7: "#DIV/0!", 15: "#VALUE!", 23: "#REF!", 29: "#NAME?", 36: "#NUM!", 42: "#N/A"}
"""Error values of .xls by their code."""
_SHEET = b"\x09\x08\x10\0\0\x06\x10\0"
"""Start of a worksheet in an .xls file of Excel 97 or later."""
_ERROR = re.compile(b"(?s)(?:\5\2\x08\0|\6\0..)(....)..(?:\2.(?=....\xff\xff)|(?=.\1))([\0\7\x0f\x17\x1d$*])")
"""Cell of an .xls file with an error, or with a formula whose value is an error."""
_SHOWN_ERROR = re.compile(r"#[^\W\d_]|Err:\d")
"""Start of the text of an OpenDocument cell with an error, such as `#WERT!` or `Err:502`."""


@dataclass
class SheetLayout:
    """Layout of the cells of a sheet. Indices of rows and columns start at 0.

    Attributes:
        formats: for each row, one integer per cell: twice the style number, plus 1 if the cell has a formula.
        errors: error values such as #DIV/0!, by (row, column).
        hidden_rows: indices of hidden rows.
        hidden_columns: indices of hidden columns.
    """

    formats: dict[int, array[int]] = field(default_factory=dict)
    errors: dict[tuple[int, int], str] = field(default_factory=dict)
    hidden_rows: set[int] = field(default_factory=set)
    hidden_columns: set[int] = field(default_factory=set)


def read_layout(file: IO[bytes]) -> SheetLayout:
    """Read the number formats, formulas, errors and hidden cells of a sheet of an .xlsx file."""
    layout, row, root = SheetLayout(), -1, ElementTree.parse(file).getroot()
    # A path with the namespace is faster than a path with the wildcard {*}.
    space = root.tag[: root.tag.find("}") + 1]
    for element in root.iter(f"{space}col"):
        if element.get("hidden") in TRUE:
            first, stop = int(element.get("min", 1)), int(element.get("max", 1))
            layout.hidden_columns.update(range(first - 1, min(stop, MAX_COLUMNS)))
    for line in root.iter(f"{space}row"):
        row, column = int(number) - 1 if (number := line.get("r", "")).isdecimal() else row + 1, -1
        layout.hidden_rows.update({row} if line.get("hidden") in TRUE else ())
        cells = layout.formats[row] = array("L")
        for cell in line:
            index = column_number(cell.get("r", "").rstrip("0123456789")) - 1
            column = column + 1 if index < 0 else index
            style, kind = cell.get("s", ""), cell.get("t")
            cells.extend([0] * (column + 1 - len(cells)))
            cells[column] = 2 * int(style) if style.isdecimal() and len(style) < 6 else 0
            cells[column] += kind != "str" and cell.find(f"{space}f") is not None
            if kind == "e":
                layout.errors[row, column] = (cell.findtext(f"{space}v") or "").strip()
    return layout


def read_open_layout(name: str, file: IO[bytes]) -> SheetLayout:
    """Read the layout of a sheet of an .ods file: errors, hidden rows and hidden columns."""
    layout, tables = SheetLayout(), ElementTree.parse(file).iter(f"{TABLE}table")
    table = next(table for table in tables if table.get(f"{TABLE}name") == name)
    for hidden, kind, limit in ((layout.hidden_rows, "row", MAX_ROWS), (layout.hidden_columns, "column", MAX_COLUMNS)):
        end = 0
        for element in table.iter(f"{TABLE}table-{kind}"):
            start, end, column = end, end + _count_repeats(element, kind), 0
            if element.get(f"{TABLE}visibility", "visible") != "visible":
                hidden.update(range(start, min(end, limit)))
            for cell in element:
                # Older versions of LibreOffice store the number 0 for an error.
                value = cell.get(f"{OFFICE}string-value", cell.get(f"{OFFICE}value"))
                if value in ("", "0") and (not value or _SHOWN_ERROR.match(cell.findtext("{*}p", ""))):
                    layout.errors[start, column] = cell.findtext("{*}p", "")
                column += _count_repeats(cell, "column")
    return layout


def read_old_errors(content: bytes) -> list[dict[tuple[int, int], str]]:
    """Read the error values of each sheet of an .xls file, by (row, column).

    The bytes are searched by a pattern, so the result may include cells without an error that are not empty.
    """
    sheets = map(_ERROR.findall, content.split(_SHEET)[1:])
    return [{struct.unpack("<HH", position): ERRORS[ord(code)] for position, code in cells} for cells in sheets]


def _count_repeats(element: ElementTree.Element, kind: str) -> int:
    return int(element.get(f"{TABLE}number-{kind}s-repeated", 1))


def find_parts(archive: zipfile.ZipFile) -> tuple[dict[str, str], dict[int, str]]:
    """Return the sheet files and the number formats that the index of an .xlsx archive lists.

    Returns:
        The path of the XML file of each sheet by sheet name, and the number format by style number.
    """
    roots = (name for name in archive.namelist() if name.endswith("workbook.xml"))
    folder, name = posixpath.split(max(roots, key=lambda name: name.startswith("xl/"), default=""))
    references = _parse(archive, posixpath.join(folder, "_rels", f"{name}.rels"))
    parts = {r.get("Id"): posixpath.join("/", folder, r.get("Target", "")) for r in references}
    sheets = {}
    for sheet in _parse(archive, posixpath.join(folder, name)).iterfind(".//{*}sheet"):
        part_id = next((value for key, value in sheet.items() if key.endswith("}id")), None)
        sheets[sheet.get("name", "")] = posixpath.normpath(parts.get(part_id, "")).lstrip("/.")
    tree, codes = _parse(archive, posixpath.join(folder, "styles.xml")), dict(BUILTIN)
    codes |= {entry.get("numFmtId", ""): entry.get("formatCode") or GENERAL for entry in tree.iterfind(".//{*}numFmt")}
    styles = tree.iterfind("{*}cellXfs/{*}xf")
    return sheets, dict(enumerate(codes.get(style.get("numFmtId", ""), GENERAL) for style in styles))


def _parse(archive: zipfile.ZipFile, part: str) -> ElementTree.Element:
    return ElementTree.fromstring(archive.read(part) if part in archive.namelist() else "<nothing/>")


@lru_cache
def column_number(letters: str) -> int:
    """Convert the letters of a column, such as AB, to its number (from 1). No letters give 0."""
    return reduce(lambda number, letter: 26 * number + ord(letter) - 64, letters[:3].upper(), 0)
