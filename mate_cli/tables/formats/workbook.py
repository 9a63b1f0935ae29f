"""The parts of an .xlsx file, read by an XML parser as a stream; Transitional and Strict, with prefixes and without.

Source: ECMA-376 part 1, sections 18.2 (workbooks), 18.3 (sheets), 18.4 (shared strings), 18.8 (styles); part 2 (parts).
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from mate_cli.errors import DataError
from mate_cli.tables.formats.number_format import BUILTIN, GENERAL, format_number, format_string, parse_number
from mate_cli.tables.read_options import Limits

Element = tuple[str, dict[str, str], str]
"""Local name, attributes and text of an XML element."""
_CHUNK = 1 << 16
MAX_DEPTH = 50
"""XML elements in each other."""
MAX_AREA = 10_000
"""Cells of a merged area; larger ones are no part of a table."""
MAX_MERGED = 1_000_000
"""Cells of all merged areas."""
MAX_RUNS = 32_767
"""Runs of a text, which cannot have more letters in a spreadsheet program."""
SAVE_AS = "Open it in a spreadsheet program and save it as .xlsx"
OTHERS = (
    ("xl/workbook.bin", "a binary Excel workbook (.xlsb)", SAVE_AS),
    ("content.xml", "an OpenDocument file (.ods)", SAVE_AS),
    ("index/document.iwa", "an Apple Numbers or Pages document", SAVE_AS),
    ("word/document.xml", "a Word document (.docx)", "Copy the table into a spreadsheet program, and save it as .xlsx"),
    ("ppt/presentation.xml", "a PowerPoint document (.pptx)", "Save the table as CSV or .xlsx"),
)
"""A part by which other documents in archives are known, what they are, and what to do."""
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
_AREA = re.compile("([A-Z]{1,3})([0-9]{1,7}):([A-Z]{1,3})([0-9]{1,7})")


class Worksheet(NamedTuple):
    """A sheet of a workbook."""

    name: str
    part: str
    is_hidden: bool


@dataclass
class Area:
    """The columns and the last row of a merged area, from 1, and its text once its first row was read."""

    left: int
    right: int
    bottom: int
    text: str = ""


class ElementParser:
    """XML elements as they end; a string has the text of its runs, but for how they are spoken."""

    def __init__(self) -> None:
        self.ended, self.runs = list[Element](), list[str]()
        self._opened, self._pieces = list[dict[str, str]](), list[str]()
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler, self.parser.EndElementHandler = self._start, self._end
        self.parser.CharacterDataHandler, self.parser.StartDoctypeDeclHandler = self._pieces.append, self._refuse

    def _start(self, _: str, attributes: dict[str, str]) -> None:
        if len(self._opened) > MAX_DEPTH:
            raise RecursionError
        self._opened.append(attributes)
        self._pieces.clear()

    def _end(self, name: str) -> None:
        text = "".join(self._pieces)
        self._pieces.clear()
        if ":" in name:
            name = name.rpartition(":")[2]
        if name == "t":
            self.runs.append(text)
            if len(self.runs) > MAX_RUNS:
                raise ValueError(f"a text has more than {MAX_RUNS:,} runs")
        elif name == "rPh":
            del self.runs[-1:]
        elif name in ("si", "is"):
            text = "".join(self.runs)
            self.runs.clear()
        self.ended.append((name, self._opened.pop(), text))

    def _refuse(self, *_: object) -> None:
        raise ValueError("it has a DTD")


class Workbook:
    """An .xlsx file: its sheets, and their rows as texts.

    Attributes:
        merged: the merged areas that begin in each row of the sheet whose rows were read.
        has_unsaved: whether a formula there has no saved value.
    """

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path, self.limits = path, limits
        if not zipfile.is_zipfile(path):
            raise self._foreign_text()
        self._archive = zipfile.ZipFile(path)
        parts = self._archive.infolist()
        limits.check_bytes(path, sum(part.file_size for part in parts))
        self._parts = {part.filename.replace("\\", "/").lower(): part for part in parts}
        root = next((part for kind, part in self._related("").values() if kind == "officeDocument"), "xl/workbook.xml")
        if root.lower() not in self._parts or root.endswith(".bin"):
            raise self._foreign()
        related = self._related(root)
        named = dict(related.values())
        self.sheets, self._date1904 = list[Worksheet](), False
        for name, attributes, _ in self._elements(root):
            if name == "workbookPr":
                self._date1904 = attributes.get("date1904") in ("1", "true")
            elif name == "sheet":
                place = next(value for key, value in attributes.items() if key.endswith(":id"))
                kind, part = related.get(place, ("", ""))
                if kind == "worksheet":
                    self.sheets.append(
                        Worksheet(attributes["name"], part, attributes.get("state", "visible") != "visible")
                    )
        self._texts = [
            decode_escapes(text) for name, _, text in self._elements(named.get("sharedStrings", "")) if name == "si"
        ]
        self._formats = self._number_formats(named.get("styles", ""))

    def rows(self, sheet: Worksheet) -> Iterator[tuple[int, list[str]]]:
        """Yield the number of each row that is stored, from 1, and the texts of its cells; then all is known of it."""
        self.merged, self._merged_cells, self.has_unsaved = dict[int, list[Area]](), 0, False
        self.numeric = set[int]()
        number, cells, line, value, has_formula = 0, 0, list[str](), "", False
        for name, attributes, text in self._elements(sheet.part):
            if name in ("v", "is"):
                value = text
            elif name == "f":
                has_formula = True
            elif name == "c":
                column = column_number(attributes.get("r", "").rstrip("0123456789")) or len(line) + 1
                if column > self.limits.columns:
                    self.limits.check(self.path, columns=column)
                if column > len(line):
                    line += [""] * (column - len(line))
                line[column - 1] = self._show(value, attributes)
                if value and attributes.get("t", "n") == "n":
                    self.numeric.add(column - 1)
                self.has_unsaved |= has_formula and not value and attributes.get("t") != "str"
                value, has_formula = "", False
            elif name == "row":
                number, cells = max(int(attributes.get("r", 0)), number + 1), cells + len(line)
                self.limits.check(self.path, cells=cells)
                yield number, line
                line = []
            elif name == "mergeCell":
                self._add_area(attributes.get("ref", ""))

    def _add_area(self, reference: str) -> None:
        """Note a merged area, unless it is too large for a table."""
        found = _AREA.fullmatch(reference)
        if found is None:
            return
        left, top, right, bottom = column_number(found[1]), int(found[2]), column_number(found[3]), int(found[4])
        size = (right - left + 1) * (bottom - top + 1)
        is_small = 1 < size <= MAX_AREA
        self._merged_cells += size if is_small else 1
        if self._merged_cells > MAX_MERGED:
            what = f"its merged areas have more than {MAX_MERGED:,} cells"
            raise DataError(what, where=str(self.path), remedy="Save the table as CSV")
        if is_small:
            self.merged.setdefault(top, []).append(Area(left, right, bottom))

    def _show(self, value: str, attributes: dict[str, str]) -> str:
        """Write what a cell shows of its value."""
        kind = attributes.get("t", "n")
        code = self._formats.get(attributes.get("s", "0"), GENERAL)
        if kind in ("s", "str", "inlineStr"):
            text = self._texts[int(value)] if kind == "s" and value else decode_escapes(value)
            return text if code == GENERAL else format_string(text, code)
        if kind == "b":
            return "TRUE" if value in ("1", "true") else "FALSE" if value else ""
        if kind == "e" or (code == GENERAL and value.isdigit() and len(value) <= 15):
            return value
        if kind == "d":
            with suppress(ValueError):
                start = datetime(1904, 1, 1) if self._date1904 else datetime(1899, 12, 30)
                value = str((datetime.fromisoformat(value.rstrip("Z")) - start).total_seconds() / 86400)
                code = code if code != GENERAL else "yyyy-mm-dd hh:mm:ss"
        return show_number(value, code, self._date1904)

    def _number_formats(self, part: str) -> dict[str, str]:
        """Return the number format of each style, by its number."""
        codes, styles = dict(BUILTIN), list[str]()
        for name, attributes, _ in self._elements(part):
            if name == "numFmt":
                codes[attributes.get("numFmtId", "")] = attributes.get("formatCode") or GENERAL
            elif name == "xf":
                styles.append(codes.get(attributes.get("numFmtId", ""), GENERAL))
            elif name == "cellStyleXfs":
                styles.clear()
            elif name == "cellXfs":
                break
        return {str(number): code for number, code in enumerate(styles)}

    def _related(self, part: str) -> dict[str, tuple[str, str]]:
        """Return the kind and name of each part that a part refers to, by the name of the reference."""
        folder, name = posixpath.split(part)
        found = self._elements(posixpath.join(folder, "_rels", f"{name}.rels"))
        return {
            attributes["Id"]: (
                posixpath.basename(attributes["Type"]),
                posixpath.normpath(posixpath.join("/", folder, attributes["Target"])).lstrip("/"),
            )
            for name, attributes, _ in found
            if name == "Relationship"
        }

    def _elements(self, part: str) -> Iterator[Element]:
        """Yield the elements of a part as they end."""
        info = self._parts.get(part.lower())
        if info is None:
            return
        if "/worksheets/" not in part:
            self.limits.check_bytes(self.path, info.file_size // 4, whole=True)
        elements, held = ElementParser(), 0
        with self._archive.open(info) as file:
            while piece := file.read(_CHUNK):
                elements.parser.Parse(piece)
                held = 0 if elements.ended and not elements.runs else held + len(piece)
                self.limits.check_bytes(self.path, held, whole=True)
                yield from elements.ended
                elements.ended.clear()
        elements.parser.Parse(b"", True)

    def _foreign_text(self) -> DataError:
        """Return the error for a file that is no archive."""
        with self.path.open("rb") as file:
            start = file.read(1000).lstrip(b"\xef\xbb\xbf\r\n\t ").lower()
        marks = (b"<?xml", "XML"), (b"<", "an HTML page"), (b"pk", "damaged"), (b"", "text")
        what = "damaged" if b"\0" in start else next(name for mark, name in marks if start.startswith(mark))
        remedy = "Rename it to .csv" if what == "text" else SAVE_AS
        return DataError(f"this workbook cannot be read: it is {what}", where=str(self.path), remedy=remedy)

    def _foreign(self) -> DataError:
        """Return the error for an archive that is no workbook."""
        for part, what, remedy in OTHERS:
            if part in self._parts:
                return DataError(f"this is {what}", where=str(self.path), remedy=remedy)
        if "[content_types].xml" in self._parts:
            return DataError("this workbook has no sheets", where=str(self.path), remedy=SAVE_AS)
        return DataError("this is an archive (.zip)", where=str(self.path), remedy="Unpack it first")


@lru_cache(maxsize=1 << 14)
def show_number(value: str, code: str, date1904: bool) -> str:
    """Write a stored number in a number format; what is none stays."""
    number = parse_number(value)
    return value if number.is_nan() else format_number(number, code, date1904=date1904)


@lru_cache(maxsize=1 << 15)
def column_number(letters: str) -> int:
    """Return the number of a column, from 1, by its letters; 0 of what is none."""
    if not re.fullmatch("[A-Z]{1,3}", letters):
        return 0
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number


def decode_escapes(text: str) -> str:
    """Put the characters into a text that are written as _x000D_ and the like; line breaks are those of Python."""
    if "_x" not in text:
        return text
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")
