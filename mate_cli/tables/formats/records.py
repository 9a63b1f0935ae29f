"""JSON: a list of objects or lists, an object in one of the shapes of `json_shapes`, and JSON lines."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from mate_cli.errors import DataError
from mate_cli.tables.formats.cell_text import spreadsheet_text
from mate_cli.tables.formats.encoding import Text, text_file
from mate_cli.tables.formats.grid import Grid
from mate_cli.tables.formats.json_shapes import SHAPES, find_table, is_json_number
from mate_cli.tables.read_options import Limits, ReadOptions

PIECE = 1 << 16
MAX_DIGITS = 4000


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


def read_jsonl(path: Path, options: ReadOptions) -> Grid:
    """Open a file with a JSON object or list per line.

    Raises:
        DataError: it is not text. A line that is not JSON is refused when it is read.
    """
    text = text_file(path, options.encoding)
    return _of_values(_values_of_lines(text, options.limits, _Decoder(text.notes)), options, path, text.notes)


def read_json(path: Path, options: ReadOptions) -> Grid:
    """Read a JSON file; the objects of a list are decoded one by one.

    Raises:
        DataError: it is not JSON, or holds no table.
    """
    limits, file = options.limits, text_file(path, options.encoding)
    notes = file.notes
    if _is_list(file):
        return _of_values(_values_of_list(file, limits.entry, _Decoder(notes)), options, path, notes)
    limits.check_bytes(path, path.stat().st_size, whole=True)
    text = file.read()
    try:
        with _pause_garbage_collection():
            content = _Decoder(notes).decode(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return _of_values(_values_of_lines(file, limits, _Decoder(notes)), options, path, notes)
        raise _not_json(path, error.lineno, error.msg) from error
    header, rows = find_table(content, path, notes)
    if header is None:
        return _of_values(iter(rows), options, path, notes)
    grid = Grid([], [spreadsheet_text(name) for name in header], notes=notes)
    grid.lines = _lists(rows, path)
    return grid


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Let Python look for no garbage among millions of new lists: it would look again and again, and find none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _of_values(values: Iterator[Any], options: ReadOptions, path: Path, notes: list[str]) -> Grid:
    """Return a grid of objects, whose keys are the header in the order of their first appearance, or of lists."""
    first = next(values, None)
    rest = values if first is None else _chain(first, values)
    if first is None:
        return Grid([], notes=notes)
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


def _chain(first: object, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


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


def _values_of_lines(text: Text, limits: Limits, decoder: _Decoder) -> Iterator[Any]:
    with text.open() as file:
        for number, line in enumerate(limits.lines(file, text.path), 1):
            if line.strip():
                try:
                    yield decoder.decode(line)
                except json.JSONDecodeError as error:
                    raise _not_json(text.path, number, error.msg) from error


def _is_list(file: Text) -> bool:
    with file.open() as stream:
        while piece := stream.read(PIECE):
            if (start := _after_space(piece, 0)) < len(piece):
                return piece[start] == "["
    return False


class _Window:
    """A part of a text that moves over it from front to back.

    So many letters as `ahead` says are there beyond the place, as long as the text has them.
    """

    def __init__(self, stream: TextIO, ahead: int) -> None:
        self._stream, self._ahead = stream, ahead
        self.text, self.place, self.at_end, self._lines = "", 0, False, 1
        self.fill()

    def fill(self) -> None:
        """Have enough letters ahead."""
        if self.at_end or len(self.text) - self.place > self._ahead:
            return
        piece = self._stream.read(4 * self._ahead)
        self.at_end = not piece
        self._lines += self.text.count("\n", 0, self.place)
        self.text, self.place = self.text[self.place :] + piece, 0
        self.fill()

    def line(self, place: int) -> int:
        """Return the number of the line at a place in the part that is there."""
        return self._lines + self.text.count("\n", 0, place)

    def skip_space(self, more: int = 0) -> str:
        """Go on to the next letter that is no space, after so many letters; return it, or nothing at the end."""
        self.place += more
        while True:
            self.place = _after_space(self.text, self.place)
            if self.place < len(self.text) or self.at_end:
                self.fill()
                return self.text[self.place : self.place + 1]
            self.fill()


def _values_of_list(file: Text, longest: int, decoder: _Decoder) -> Iterator[Any]:
    """Yield the entries of a JSON list, of which a few are in memory at a time."""
    with file.open() as stream:
        window = _Window(stream, longest)
        window.skip_space()
        sign = window.skip_space(1)  # after the bracket
        while sign != "]":
            yield _next_value(window, file.path, longest, decoder)
            sign = window.skip_space()
            if sign == ",":
                sign = window.skip_space(1)
            elif sign != "]":
                raise _not_json(file.path, window.line(window.place), "Expecting ',' or ']'")
        if window.skip_space(1):
            raise _not_json(file.path, window.line(window.place), "Extra data")


def _next_value(window: _Window, path: Path, longest: int, decoder: _Decoder) -> Any:  # noqa: ANN401 - any of JSON
    try:
        value, end = decoder.raw_decode(window.text, window.place)
    except json.JSONDecodeError as error:
        if window.at_end or window.text[window.place] not in "[{" or _ends_early(error, window.text):
            raise _not_json(path, window.line(error.pos), error.msg) from error
        end = len(window.text)
    if end - window.place > longest:
        remedy = "Give a part of it, or raise limits.megabytes"
        raise DataError(f"an entry has more than {longest:,} letters", where=str(path), remedy=remedy)
    window.place = end
    return value


def _ends_early(error: json.JSONDecodeError, text: str) -> bool:
    """Tell whether an error is one of the text itself, and not that the rest of it is not there."""
    return error.pos < len(text) - 10 and not error.msg.startswith("Unterminated")


def _after_space(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n\ufeff":
        place += 1
    return place


def _not_json(path: Path, line: int, problem: str) -> DataError:
    return DataError(f"not valid JSON: {problem}", where=f"{path}, line {line}", remedy="Fix the file")
