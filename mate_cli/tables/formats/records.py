"""JSON: objects or lists one after another or in a list, or an object in one of the shapes of `json_shapes`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from mate_cli.errors import DataError
from mate_cli.tables.formats.cell_text import spreadsheet_text
from mate_cli.tables.formats.encoding import Text, text_file
from mate_cli.tables.formats.grid import Grid
from mate_cli.tables.formats.json_shapes import SHAPES, find_table, is_json_number
from mate_cli.tables.read_options import Limits, ReadOptions

MAX_DIGITS = 4000
PIECE = 1 << 16
CUT = 10
"""Letters at the end of a part of a text in which an error may come of the rest that is not there."""
LINES = (".jsonl", ".ndjson")
"""Files that have a row a line."""
_LIST = re.compile(r"[\s\ufeff]*\[\s*[\[{]")
_SPACES, _SPACES_OR_COMMAS = re.compile(r"[\s\ufeff]*"), re.compile(r"[\s\ufeff,]*")


class _Decoder(json.JSONDecoder):
    """Reads JSON, and says what of it JSON has no word for."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__(
            object_pairs_hook=self._object, parse_constant=self._constant, parse_float=_float, parse_int=_int
        )
        self.notes = notes

    def _say(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            self._say("A key occurs twice in an object; the last value was used.")
        return made

    def _constant(self, name: str) -> float | None:
        self._say(f"{name} is not a JSON number; it was read as {'empty' if name == 'NaN' else 'text'}.")
        return None if name == "NaN" else float(name.replace("Infinity", "inf"))


def _float(text: str) -> float | str:
    """Return a number; one that is beyond all numbers stays the text that it is."""
    value = float(text)
    return value if math.isfinite(value) else text


def _int(text: str) -> int | str:
    """Return a whole number; one of more digits than Python reads stays the text that it is."""
    return int(text) if len(text) <= MAX_DIGITS else text


def read_json(path: Path, options: ReadOptions) -> Grid:
    """Open a JSON file: rows that are objects or lists, or one object with a table in it.

    Raises:
        DataError: it is not text, holds no table, or is too large. What is not JSON is refused when it is read.
    """
    text = text_file(path, options.encoding)
    with text.open() as file:
        begin = file.read(PIECE)
    has_row_a_line = path.suffix.lower() in LINES and begin.lstrip().partition("\n")[0].rstrip().endswith("]")
    in_lists = _LIST.match(begin) is not None and not has_row_a_line
    values = _read_values(text, options.limits, in_lists)
    start = list(islice(values, 2))
    if len(start) == 1 and not in_lists and path.suffix.lower() not in LINES:
        header, start = (None, start[0]) if isinstance(start[0], list) else find_table(start[0], path, text.notes)
        if header is not None:
            return Grid(_lists(start, path), [spreadsheet_text(name) for name in header], notes=text.notes)
    return _of_values(chain(start, values), options, path, text.notes)


class _Values:
    """Values of JSON, read from front to back: a part of the file is in memory, which grows up to a whole value."""

    def __init__(self, file: TextIO, text: Text, limits: Limits) -> None:
        self._file, self._path, self._limits, self._decoder = file, text.path, limits, _Decoder(text.notes)
        self._part, self._place, self._line = "", 0, 1

    def skip(self, signs: re.Pattern[str]) -> str:
        """Go on behind such signs; return the next one, "" at the end of the file."""
        while True:
            match = signs.match(self._part, self._place)
            self._place = match.end() if match else self._place
            if self._place < len(self._part) or not self._read(PIECE):
                return self._part[self._place : self._place + 1]

    def take(self) -> Any:  # noqa: ANN401
        """Return the value that begins here."""
        while True:
            try:
                value, self._place = self._decoder.raw_decode(self._part, self._place)
            except json.JSONDecodeError as error:
                is_cut = error.pos > len(self._part) - CUT or error.msg.startswith("Unterminated")
                length = len(self._part) - self._place
                if not is_cut or not self._read(max(0, min(length + PIECE, self._limits.whole + 1 - length))):
                    self._limits.check_bytes(self._path, length, whole=True)
                    raise self.fault(error.msg, error.pos) from error
            else:
                return value

    def take_entries(self) -> Iterator[Any]:
        """Yield the entries of the list that begins here."""
        sign = ","
        while sign == ",":
            self._place += 1
            self.skip(_SPACES)
            yield self.take()
            sign = self.skip(_SPACES)
        if sign != "]":
            raise self.fault("Expecting ',' or ']'")
        self._place += 1

    def fault(self, problem: str, place: int = 0) -> DataError:
        """Return the error that names a line."""
        end = max(self._place, min(place, len(self._part.rstrip())))
        where = f"{self._path}, line {self._line + self._part.count(chr(10), 0, end)}"
        return DataError(f"not valid JSON: {problem}", where=where, remedy="Fix the file")

    def _read(self, count: int) -> bool:
        more = self._file.read(count)
        self._line += self._part.count("\n", 0, self._place)
        self._part, self._place = self._part[self._place :] + more, 0
        return bool(more)


def _read_values(text: Text, limits: Limits, in_lists: bool) -> Iterator[Any]:
    """Yield values that stand one after another, perhaps with commas between them, or the entries of such lists."""
    with text.open() as file:
        values = _Values(file, text, limits)
        while sign := values.skip(_SPACES_OR_COMMAS):
            if in_lists and sign != "[":
                raise values.fault("Extra data")
            if in_lists:
                yield from values.take_entries()
            else:
                yield values.take()


def _of_values(values: Iterator[Any], options: ReadOptions, path: Path, notes: list[str]) -> Grid:
    """Return a grid of objects, whose keys are the header in the order of their first appearance, or of lists."""
    first = next(values, None)
    if first is None:
        return Grid([], notes=notes)
    rest = chain([first], values)
    if isinstance(first, list):
        is_row = options.header is None and any(is_json_number(value) and not _is_year(value) for value in first)
        if is_row:
            notes.append("The first list has numbers: it was read as a row, not as the header.")
        grid = Grid([], [] if is_row else None, notes=notes)
        grid.lines = _lists(rest, path)
        return grid
    header: list[str] = []
    grid = Grid([], header, notes=notes)
    grid.lines = _objects(rest, header, path)
    return grid


def _is_year(value: float) -> bool:
    return isinstance(value, int) and 1000 <= value < 3000


def _objects(values: Iterable[Any], header: list[str], path: Path) -> Iterator[list[str]]:
    places: dict[str, int] = {}
    for number, value in enumerate(values, 1):
        if not isinstance(value, dict):
            problem = "it lists single values" if number == 1 else f"entry {number} is not an object, others are"
            raise DataError(problem, where=str(path), remedy=SHAPES)
        for key in value:
            if key not in places:
                places[key] = len(places)
                header.append(key)
        row = [""] * len(places)
        for key, one in value.items():
            row[places[key]] = spreadsheet_text(one)
        yield row


def _lists(values: Iterable[Any], path: Path) -> Iterator[list[str]]:
    for number, value in enumerate(values, 1):
        if not isinstance(value, list):
            raise DataError(f"row {number} is not a list", where=str(path), remedy=SHAPES)
        yield [spreadsheet_text(one) for one in value]
