"""JSON: a list of objects or lists, an object in one of the shapes of `json_shapes`, and JSON lines."""

from __future__ import annotations

import gc
import json
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

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
_LIST, _MARK = re.compile(r"[\s\ufeff]*\[\s*[\[{]"), re.compile(r"\s*([,\]])")
_BETWEEN = re.compile(r"[ \t\r\n\ufeff,]*")


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
    """Open a file with a JSON object or list per line; where the first has more lines, all are read at once.

    Raises:
        DataError: it is not text. A line that is not JSON is refused when it is read.
    """
    text = text_file(path, options.encoding)
    decoder = _Decoder(text.notes)
    with text.open() as file, suppress(json.JSONDecodeError, StopIteration):
        decoder.decode(next(line for line in options.limits.lines(file, path) if line.strip()))
        return _of_values(_values_of_lines(text, options.limits, decoder), options, path, text.notes)
    return read_json(path, options)


def read_json(path: Path, options: ReadOptions) -> Grid:
    """Open a JSON file: a list entry by entry, else whole, with a table in it or objects or lists one after another.

    Raises:
        DataError: it is not JSON, holds no table, or is too large.
    """
    text = text_file(path, options.encoding)
    with text.open() as file:
        if _LIST.match(file.read(PIECE)):
            return _of_values(_entries(text, options.limits, _Decoder(text.notes)), options, path, text.notes)
    options.limits.check_bytes(path, path.stat().st_size, whole=True)
    notes, content = text.notes, text.read()
    try:
        with _pause_garbage_collection():
            values = _decode_all(_Decoder(notes), content)
    except json.JSONDecodeError as error:
        raise _not_json(path, error.lineno, error.msg) from error
    if len(values) > 1:
        return _of_values(iter(values), options, path, notes)
    if isinstance(values[0], list):
        return _of_values(iter(values[0]), options, path, notes)
    header, rows = find_table(values[0], path, notes)
    if header is None:
        return _of_values(iter(rows), options, path, notes)
    return Grid(_lists(rows, path), [spreadsheet_text(name) for name in header], notes=notes)


def _entries(text: Text, limits: Limits, decoder: json.JSONDecoder) -> Iterator[Any]:
    """Yield the entries of a list one by one: a part of the text is in memory, which grows up to a whole entry."""
    with text.open() as file:
        part, line = file.read(PIECE), 1
        place = part.index("[") + 1
        while True:
            try:
                value, end = decoder.raw_decode(part, _skip(part, place))
                mark = _MARK.match(part, end)
                if mark is None:
                    raise json.JSONDecodeError("Expecting ',' or ']'", part, end)
            except json.JSONDecodeError as error:
                is_cut = error.pos > len(part) - CUT or error.msg.startswith("Unterminated")
                length = len(part) - place
                more = file.read(min(length + PIECE, limits.whole + 1 - length)) if is_cut else ""
                if not more:
                    limits.check_bytes(text.path, length, whole=True)
                    raise _not_json(text.path, line + error.lineno - 1, error.msg) from error
                line += part.count("\n", 0, place)
                part, place = part[place:] + more, 0
                continue
            yield value
            if mark[1] == "]":
                break
            place = mark.end()
        rest = part[mark.end() :] + file.read(PIECE)
        if rest.strip():
            raise _not_json(text.path, line + part.count("\n", 0, mark.end()), "Extra data")


def _skip(text: str, place: int) -> int:
    """Return the place of the next value."""
    between = _BETWEEN.match(text, place)
    return between.end() if between else place


def _decode_all(decoder: json.JSONDecoder, text: str) -> list[Any]:
    """Return the values that stand one after another, perhaps with commas between them."""
    values, place = list[Any](), 0
    while (place := _skip(text, place)) < len(text) or not values:
        value, place = decoder.raw_decode(text, place)
        values.append(value)
    return values


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


def _values_of_lines(text: Text, limits: Limits, decoder: _Decoder) -> Iterator[Any]:
    with text.open() as file:
        for number, line in enumerate(limits.lines(file, text.path), 1):
            if line.strip():
                try:
                    yield decoder.decode(line)
                except json.JSONDecodeError as error:
                    raise _not_json(text.path, number, error.msg) from error


def _not_json(path: Path, line: int, problem: str) -> DataError:
    return DataError(f"not valid JSON: {problem}", where=f"{path}, line {line}", remedy="Fix the file")
