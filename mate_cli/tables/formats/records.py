"""JSON: objects or lists one after another or in a list, an object in a shape of pandas, or lists under keys."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
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
_SIGN = re.compile(r"[^\s\ufeff]")
YEARS = range(1000, 3000)


def _make_decoder(notes: list[str]) -> json.JSONDecoder:
    """Make a decoder that notes what of a text JSON has no word for.

    A number that is beyond all numbers, or has more digits than Python reads, stays the text that it is.
    """

    def say(note: str) -> None:
        notes.extend({note} - {*notes})

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
    text, has_lines = text_file(path, options.encoding), path.suffix.lower() in LINES
    with text.open() as file:
        begin = file.read(PIECE)
    is_row_a_line = has_lines and begin.lstrip().partition("\n")[0].rstrip().endswith("]")
    in_lists = _LIST.match(begin) is not None and not is_row_a_line
    values, header = _read_values(text, options.limits, in_lists), None
    start = list(islice(values, 2))
    if len(start) == 1 and not in_lists and not has_lines:
        header, start = (None, start[0]) if isinstance(start[0], list) else find_table(start[0], path, text.notes)
    rows = chain(start, values)
    if header is not None:
        return Grid(_lists(rows, path), list(map(spreadsheet_text, header)), notes=text.notes)
    if not start or not isinstance(start[0], list):
        names: list[str] = []
        return Grid(_objects(rows, names, path), names, notes=text.notes)
    is_row = options.header is None and any(_is_number(value) and value not in YEARS for value in start[0])
    text.notes.extend(["The first list has numbers: it was read as a row, not as the header."] if is_row else [])
    return Grid(_lists(rows, path), [] if is_row else None, notes=text.notes)


class _Values:
    """Values of JSON, read from front to back: a part of the file is in memory, which grows up to a whole value."""

    def __init__(self, file: TextIO, text: Text, limits: Limits) -> None:
        self._file, self._path, self._limits, self._decoder = file, text.path, limits, _make_decoder(text.notes)
        self._part, self._place, self._line = "", 0, 1

    def peek(self) -> str:
        """Go on to the next sign that is no space and return it; "" at the end of the file."""
        while (match := _SIGN.search(self._part, self._place)) is None:
            self._place = len(self._part)
            if not self._read(PIECE):
                return ""
        self._place = match.start()
        return match[0]

    def accept(self, sign: str) -> bool:
        """Go on behind a sign, if it comes next."""
        is_next = self.peek() == sign
        self._place += is_next
        return is_next

    def take(self) -> Any:  # noqa: ANN401
        """Return the value that comes next."""
        self.peek()
        while True:
            try:
                value, self._place = self._decoder.raw_decode(self._part, self._place)
                return value
            except json.JSONDecodeError as error:
                is_cut = error.pos > len(self._part) - CUT or error.msg.startswith("Unterminated")
                length = len(self._part) - self._place
                if not is_cut or not self._read(max(0, min(length + PIECE, self._limits.bytes_at_once + 1 - length))):
                    self._limits.check_bytes(self._path, length, at_once=True)
                    raise self.fault(error.msg, error.pos) from error

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
        while values.peek():
            if in_lists and not values.accept("["):
                raise values.fault("Extra data")
            yield values.take()
            while in_lists and values.accept(","):
                yield values.take()
            if in_lists and not values.accept("]"):
                raise values.fault("Expecting ',' or ']'")
            values.accept(",")


def _objects(values: Iterable[Any], header: list[str], path: Path) -> Iterator[list[str]]:
    """Yield rows of objects, whose keys become the header in the order of their first appearance."""
    known = set[str]()
    for number, value in enumerate(values, 1):
        if not isinstance(value, dict):
            problem = "it lists single values" if number == 1 else f"entry {number} is not an object, others are"
            raise DataError(problem, where=str(path), remedy=SHAPES)
        header += [key for key in value if key not in known]
        known.update(value)
        yield [spreadsheet_text(value[key]) if key in value else "" for key in header]


def _lists(values: Iterable[Any], path: Path) -> Iterator[list[str]]:
    for number, value in enumerate(values, 1):
        if not isinstance(value, list):
            raise DataError(f"row {number} is not a list", where=str(path), remedy=SHAPES)
        yield list(map(spreadsheet_text, value))


SHAPES = 'Write a list of objects, {"header": [...], "rows": [[...], ...]}, or one list per column'
HEADERS, ROWS = ("header", "columns", "fields"), ("rows", "data", "values")
MAX_DEPTH = 4
"""So deep a table may lie below keys."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")
Shape = tuple[list[Any] | None, list[Any], str]
"""The header, the rows as lists, and what to say; or no header, and objects, or lists of which the first is one."""


def find_table(content: object, path: Path, notes: list[str]) -> tuple[list[Any] | None, list[Any]]:
    """Find the table in the content of a JSON file that is no list.

    Returns:
        The header, and the rows as lists; or no header, and objects, or lists of which the first is one.

    Raises:
        DataError: there is none, or more than one.
    """
    tables = list(_tables(content, ()))
    if len(tables) > 1:
        names = ", ".join(place for place, _ in tables[:5])
        raise DataError(f"it has several tables: {names}", where=str(path), remedy="Save each in its own file")
    for place, (header, rows, note) in tables:
        notes += filter(None, (f"The table was read from {place!r}." if place else "", note))
        return header, rows
    raise DataError("it has no table", where=str(path), remedy=SHAPES)


def _tables(content: object, keys: tuple[str, ...]) -> Iterator[tuple[str, Shape]]:
    """Yield the tables in a content, with the keys that lead to each."""
    if isinstance(content, dict) and content and len(keys) <= MAX_DEPTH:
        if shape := _of_rows(content) or _of_columns(content) or _of_keyed(content):
            yield ".".join(keys), shape
            return
        for key, value in content.items():
            yield from _tables(value, (*keys, key))
    elif isinstance(content, list) and (_are_all(content, dict) or _are_all(content, list)):
        yield ".".join(keys), (None, content, "")


def _are_all(values: list[Any], kind: type) -> bool:
    return bool(values) and all(isinstance(value, kind) for value in values)


def _of_rows(content: dict[str, Any]) -> Shape | None:
    """Return rows that stand beside their header; the names of rows are a column unless they only count."""
    schema = content.get("schema")
    source, index = (schema, "primaryKey") if isinstance(schema, dict) else (content, "index")
    header: list[Any] = next((source[key] for key in HEADERS if isinstance(source.get(key), list)), [])
    rows = next((content[key] for key in ROWS if isinstance(content.get(key), list)), None)
    names = [field.get("name") if isinstance(field, dict) else field for field in header]
    if rows is None or not names or any(isinstance(name, (list, dict)) for name in names):
        return None
    labels = source.get(index)
    if _are_all(rows, dict):
        if labels == ["index"] and _counts([row.get("index") for row in rows]):  # pandas' orient "table"
            names = [name for name in names if name != "index"]
        return names, [[row.get(name) for name in names] for row in rows], ""
    if isinstance(labels, list) and len(labels) == len(rows):
        names, rows = _name_rows(labels, names, rows)
    return names, rows, ""


def _of_columns(content: dict[str, Any]) -> Shape | None:
    """Return lists of cells below their names, none of which is a table itself."""
    columns = list(content.values())
    full = list(filter(None, columns))
    is_table = _are_all(columns, list) and not any(_are_all(column, dict) for column in full)
    if not is_table or (len(full) == 1 and _are_all(full[0], list)):
        return None
    is_even = len(set(map(len, columns))) == 1
    note = "" if is_even else "The lists differ in length: filled with empty cells."
    return list(content), list(map(list, zip_longest(*columns))), note


def _of_keyed(content: dict[str, Any]) -> Shape | None:
    """Return a table whose rows and columns both have keys: numbers, or else kinds, show which are which."""
    objects = list(content.values())
    if not _are_all(objects, dict) or not all(objects):
        return None
    outer, inner = list(content), list(dict.fromkeys(key for entry in objects for key in entry))
    are_whole = [all(map(_WHOLE.fullmatch, keys)) for keys in (outer, inner)]
    as_columns = all(_are_alike(entry.values()) for entry in objects)
    as_rows = all(_are_alike(entry.get(key) for entry in objects) for key in inner)
    is_flat = not any(isinstance(value, (dict, list)) for entry in objects for value in entry.values())
    is_filled = sum(map(len, objects)) >= (2 / 3 if is_flat else 1) * len(inner) * len(objects)
    if not is_filled or (len(objects) == 1 and not (is_flat and (are_whole[1] or as_columns))):
        return None
    signs = (are_whole[0] - are_whole[1], as_rows - as_columns, len(outer) - len(inner))
    names = ("rows", "columns") if next(filter(None, signs), 0) > 0 else ("columns", "rows")
    if names[0] == "columns":
        outer, inner = inner, outer
        objects = [{name: content[name].get(row) for name in inner} for row in outer]
    cells = [[entry.get(name) for name in inner] for entry in objects]
    return *_name_rows(outer, inner, cells), "The outer keys were read as {}, the inner ones as {}.".format(*names)


def _name_rows(labels: list[Any], header: list[Any], rows: list[Any]) -> tuple[list[Any], list[Any]]:
    """Put labels before rows, unless they only count from 0."""
    if _counts(labels):
        return header, rows
    return ["", *header], [[label, *row] for label, row in zip(labels, rows, strict=True)]


def _are_alike(values: Iterable[Any]) -> bool:
    return len({"number" if _is_number(value) else type(value) for value in values if value is not None}) < 2


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _counts(labels: Sequence[Any]) -> bool:
    """Tell whether labels only count from 0."""
    return list(map(str, labels)) == list(map(str, range(len(labels))))
