"""JSON: objects or lists one after another or in a list, an object in a shape of pandas, or lists under keys."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, TextIO

from mate_cli.errors import DataError
from mate_cli.tables.formats.cell_text import spreadsheet_text
from mate_cli.tables.formats.encoding import Text, text_file
from mate_cli.tables.read_options import Limits, ReadOptions
from mate_cli.tables.table import Grid

MAX_DIGITS = 4000
PIECE = 1 << 16
CUT = 10
"""Letters at the end of a part of a text in which an error may come of the rest that is not there."""
LINES = (".jsonl", ".ndjson")
"""Files that have a row a line."""
_LIST = re.compile(r"[\s\ufeff]*\[\s*[\[{]")
_SPACES, _SPACES_OR_COMMAS = re.compile(r"[\s\ufeff]*"), re.compile(r"[\s\ufeff,]*")


def _make_decoder(notes: list[str]) -> json.JSONDecoder:
    """Make a decoder that notes what of a text JSON has no word for.

    A number that is beyond all numbers, or has more digits than Python reads, stays the text that it is.
    """

    def say(note: str) -> None:
        if note not in notes:
            notes.append(note)

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            say("A key occurs twice in an object; the last value was used.")
        return value

    def read_constant(name: str) -> float | None:
        say(f"{name} is not a JSON number; it was read as {'empty' if name == 'NaN' else 'text'}.")
        return None if name == "NaN" else float(name)

    return json.JSONDecoder(
        object_pairs_hook=read_object,
        parse_constant=read_constant,
        parse_float=lambda text: value if math.isfinite(value := float(text)) else text,
        parse_int=lambda text: int(text) if len(text) <= MAX_DIGITS else text,
    )


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
        self._file, self._path, self._limits, self._decoder = file, text.path, limits, _make_decoder(text.notes)
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
        return Grid(_lists(rest, path), [] if is_row else None, notes=notes)
    header: list[str] = []
    return Grid(_objects(rest, header, path), header, notes=notes)


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
        for key, content in value.items():
            row[places[key]] = spreadsheet_text(content)
        yield row


def _lists(values: Iterable[Any], path: Path) -> Iterator[list[str]]:
    for number, value in enumerate(values, 1):
        if not isinstance(value, list):
            raise DataError(f"row {number} is not a list", where=str(path), remedy=SHAPES)
        yield [spreadsheet_text(cell) for cell in value]


SHAPES = 'Write a list of objects, {"header": [...], "rows": [[...], ...]}, or one list per column'
HEADERS, ROWS = ("header", "columns", "fields"), ("rows", "data", "values")
MAX_DEPTH = 4
"""So deep a table may lie below keys."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")
Found = tuple[list[Any] | None, list[Any]]
"""The header, and the rows as lists; or no header, and objects, or lists of which the first is one."""


def find_table(content: object, path: Path, notes: list[str]) -> Found:
    """Find the table in the content of a JSON file that is no list.

    Raises:
        DataError: there is none, or more than one.
    """
    tables = list(_tables(content, ()))
    if len(tables) > 1:
        names = ", ".join(place for place, _ in tables[:5])
        raise DataError(f"it has several tables: {names}", where=str(path), remedy="Save each in its own file")
    for place, read in tables:
        if place:
            notes.append(f"The table was read from {place!r}.")
        return read(notes)
    raise DataError("it has no table", where=str(path), remedy=SHAPES)


def is_json_number(value: object) -> bool:
    """Tell whether a value is a number of JSON."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _tables(content: object, keys: tuple[str, ...]) -> Iterator[tuple[str, Callable[[list[str]], Found]]]:
    """Yield the tables in a content: the keys that lead to each, and what reads it."""
    place = ".".join(keys)
    if isinstance(content, list):
        if (
            content
            and all(isinstance(entry, type(content[0])) for entry in content)
            and isinstance(content[0], (dict, list))
        ):
            yield place, lambda notes: (None, content)
        return
    if not isinstance(content, dict) or not content or len(keys) > MAX_DEPTH:
        return
    schema = content.get("schema")
    source, index = (schema, "primaryKey") if isinstance(schema, dict) else (content, "index")
    header = next((source[key] for key in HEADERS if isinstance(source.get(key), list)), None)
    rows = next((content[key] for key in ROWS if isinstance(content.get(key), list)), None)
    values = list(content.values())
    if header and rows is not None and (names := _names(header)):
        yield place, lambda notes: _of_rows(names, rows, source.get(index))
    elif all(isinstance(value, list) for value in values) and not _holds_rows(values):
        yield place, lambda notes: _of_columns(content, notes)
    elif _is_keyed(content):
        yield place, lambda notes: _of_keyed(content, notes)
    else:
        for key, value in content.items():
            yield from _tables(value, (*keys, key))


def _names(header: list[Any]) -> list[Any]:
    """Return the names of a header, which may be objects with a name each; none where it is something else."""
    names = [field.get("name") if isinstance(field, dict) else field for field in header]
    return [] if any(isinstance(name, (list, dict)) for name in names) else names


def _holds_rows(values: list[list[Any]]) -> bool:
    """Tell whether one of the lists is a table itself: of objects, or of lists where it is the only one."""
    full = list(filter(None, values))
    return any(all(isinstance(row, dict) for row in value) for value in full) or (
        len(full) == 1 and all(isinstance(row, list) for row in full[0])
    )


def _of_rows(names: list[Any], rows: list[Any], index: object) -> Found:
    """Return rows below their header; the names of rows are a column unless they only count."""
    if rows and all(isinstance(row, dict) for row in rows):
        if index == ["index"] and _counts([row.get("index") for row in rows]):  # pandas' orient "table"
            names = [name for name in names if name != "index"]
        return names, [[row.get(name) for name in names] for row in rows]
    if not isinstance(index, list) or len(index) != len(rows) or _counts(index):
        return names, rows
    return ["", *names], [[label, *row] for label, row in zip(index, rows, strict=True)]


def _of_columns(columns: dict[str, list[Any]], notes: list[str]) -> Found:
    if len(set(map(len, columns.values()))) > 1:
        notes.append("The lists differ in length: filled with empty cells.")
    return list(columns), list(map(list, zip_longest(*columns.values())))


def _is_keyed(content: dict[str, Any]) -> bool:
    """Tell whether objects of an object are its rows or columns: they have the same keys, or most of them."""
    objects = list(content.values())
    if not all(isinstance(entry, dict) and entry for entry in objects):
        return False
    keys = set().union(*objects)
    is_flat = not any(isinstance(value, (dict, list)) for entry in objects for value in entry.values())
    if len(objects) == 1:
        return is_flat and (all(map(_WHOLE.fullmatch, keys)) or len(_kinds(objects[0].values())) < 2)
    share = sum(map(len, objects)) / (len(keys) * len(objects))
    return share == 1 or (is_flat and 3 * share >= 2)


def _of_keyed(content: dict[str, dict[str, Any]], notes: list[str]) -> Found:
    """Read a table whose rows and columns both have keys: numbers, or else kinds, show which are which."""
    outer, inner = list(content), list(dict.fromkeys(key for entry in content.values() for key in entry))
    are_whole = [all(map(_WHOLE.fullmatch, keys)) for keys in (outer, inner)]
    if are_whole[0] != are_whole[1]:
        outer_is_rows = are_whole[0]
    else:
        as_columns = all(len(_kinds(entry.values())) < 2 for entry in content.values())
        as_rows = all(len(_kinds(entry.get(key) for entry in content.values())) < 2 for key in inner)
        outer_is_rows = as_rows if as_rows != as_columns else len(outer) > len(inner)
    rows, columns = (outer, inner) if outer_is_rows else (inner, outer)
    cells = [
        [(content[row].get(name) if outer_is_rows else content[name].get(row)) for name in columns] for row in rows
    ]
    order = ("rows", "columns") if outer_is_rows else ("columns", "rows")
    notes.append("The outer keys were read as {}, the inner ones as {}.".format(*order))
    if _counts(rows):
        return columns, cells
    return ["", *columns], [[row, *line] for row, line in zip(rows, cells, strict=True)]


def _kinds(values: Iterable[Any]) -> set[str]:
    return {"number" if is_json_number(value) else type(value).__name__ for value in values if value is not None}


def _counts(labels: Sequence[Any]) -> bool:
    """Tell whether labels only count from 0."""
    return list(map(str, labels)) == list(map(str, range(len(labels))))
