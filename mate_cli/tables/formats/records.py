"""JSON: objects or lists one after another or in a list, an object in a shape of pandas, or lists under keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from mate_cli.errors import DataError
from mate_cli.tables.formats.cell_text import spreadsheet_text
from mate_cli.tables.formats.encoding import text_file
from mate_cli.tables.read_options import MEGABYTE, ReadOptions
from mate_cli.tables.table import Grid

YEARS = range(1000, 3000)
SHAPES = 'Write a list of objects, {"header": [...], "rows": [[...], ...]}, or a list per column, all of one length'
NAMES = ("name", "label", "title", "id")
"""Keys of the name in a description of a column."""
HEADERS, ROWS = ("header", "columns", "fields"), ("rows", "data", "values")
MAX_DEPTH = 4
"""So deep a table may lie below keys."""
FILLED = 2 / 3
"""Of a table whose rows and columns both have keys, at least so many cells are there."""
TWICE = "A key occurs twice in an object; the last value was used."
_START = re.compile(r"[^\s\ufeff,]")
_WHOLE = re.compile(r"-?[0-9]{1,18}")
Shape = tuple[list[Any] | None, list[Any]]
"""The header, and the rows as lists; or no header, and objects, or lists of which the first is one."""


def read_json(path: Path, options: ReadOptions) -> Grid:
    """Open a JSON file: rows that are objects or lists, or one object with a table in it.

    Raises:
        DataError: it is not text, holds no table, or is too large. What is not JSON is refused when it is read.
    """
    notes, has_lines = list[str](), path.suffix.lower() != ".json"
    values, header = _read_values(path, options, notes, has_lines), None
    start = list(islice(values, 2))
    rows: Iterator[Any] = chain(start, values)
    if not start:
        raise DataError("this file is empty", where=str(path), remedy=SHAPES)
    if len(start) == 1 and not has_lines:
        header, content = find_table(start[0], path, notes)
        rows = iter(content)
    elif len(start) > 1 and isinstance(start[0], dict) and isinstance(start[1], list):  # metadata come first
        header, _ = find_table({"0": start[0], "1": [start[1]]}, path, [])
        rows = chain(start[1:], values)
    elif any(map(_is_table, start[:1])):
        rows = chain.from_iterable(value if _is_table(value) else [value] for value in rows)
    if header is not None:
        return Grid(_lists(rows, path), list(map(spreadsheet_text, header)), notes=notes)
    first = next(rows, None)
    rows = chain([first], rows)
    if not isinstance(first, list):
        names: list[str] = []
        return Grid(_objects(rows, names, path), names, notes=notes)
    is_row = options.header is None and any(_is_number(value) and value not in YEARS for value in first)
    return Grid(_lists(rows, path), [] if is_row else None, notes=notes)


def _read_values(path: Path, options: ReadOptions, notes: list[str], has_lines: bool) -> Iterator[Any]:
    """Yield values that stand one after another, perhaps with commas between them.

    Raises:
        DataError: the file is not text, not JSON, or too large.
    """

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs) and TWICE not in notes:
            notes.append(TWICE)
        return value

    text, most = text_file(path, options.encoding), options.limits.bytes_at_once
    decoder = json.JSONDecoder(object_pairs_hook=read_object)
    notes += text.notes
    is_small = path.stat().st_size <= most
    if not is_small and not has_lines:
        remedy = "Save it as .jsonl, with a row a line, or raise limits.megabytes"
        raise DataError(f"it is JSON of more than {most // MEGABYTE} MB", where=str(path), remedy=remedy)
    with text.open() as file:
        for line, part in enumerate([file.read()] if is_small else options.limits.lines(file, path), 1):
            place = 0
            while match := _START.search(part, place):
                try:
                    value, place = decoder.raw_decode(part, match.start())
                except json.JSONDecodeError as error:
                    where = f"{path}, line {line + part.rstrip().count(chr(10), 0, error.pos)}"
                    raise DataError(f"not valid JSON: {error.msg}", where=where, remedy="Fix the file") from error
                yield value


def _objects(values: Iterable[Any], header: list[str], path: Path) -> Iterator[list[str]]:
    """Yield rows of objects, whose keys become the header in the order of their first appearance."""
    known = set[str]()
    for number, value in enumerate(values, 1):
        if not isinstance(value, dict):
            raise DataError(f"entry {number} is not an object", where=str(path), remedy=SHAPES)
        header += [key for key in value if key not in known]
        known.update(value)
        yield [spreadsheet_text(value.get(key)) for key in header]


def _lists(values: Iterable[Any], path: Path) -> Iterator[list[str]]:
    for number, value in enumerate(values, 1):
        if not isinstance(value, list):
            raise DataError(f"row {number} is not a list", where=str(path), remedy=SHAPES)
        yield list(map(spreadsheet_text, value))


def find_table(content: object, path: Path, notes: list[str]) -> Shape:
    """Find the table in the content of a JSON file.

    Returns:
        The header, and the rows as lists; or no header, and objects, or lists of which the first is one.

    Raises:
        DataError: there is none, or more than one.
    """
    if isinstance(content, list) and len(content) == 2 and isinstance(content[0], dict) and _is_table(content[1]):
        content = dict(zip("01", content, strict=True))  # metadata come first
    tables = list(_tables(content, ()))
    if len(tables) != 1:
        tables = list(_find_described(content)) or tables
    if len(tables) != 1:
        names = ", ".join(place for place, _ in tables[:5])
        problem = f"it has several tables: {names}" if tables else "it has no table"
        raise DataError(problem, where=str(path), remedy="Save each in its own file" if tables else SHAPES)
    ((place, shape),) = tables
    notes += [f"The table was read from {place!r}."] if place else []
    return shape


def _tables(content: Any, keys: tuple[str, ...]) -> Iterator[tuple[str, Shape]]:  # noqa: ANN401
    """Yield the tables in a content, with the keys that lead to each."""
    if isinstance(content, dict) and content and len(keys) <= MAX_DEPTH:
        if shape := _of_rows(content) or _of_columns(content) or _of_keyed(content):
            yield ".".join(keys), shape
            return
        for key, value in content.items():
            yield from _tables(value, (*keys, key))
    elif _is_table(content):
        yield ".".join(keys), (None, content)


def _find_described(content: object) -> Iterator[tuple[str, Shape]]:
    """Yield lists of rows, all columns of which another list names, with as many descriptions as columns."""
    lists = list(_find_lists(content, ()))
    for place, values in lists:
        rows = list(map(_unwrap, values))
        keys, are_lists = {key for row in rows if isinstance(row, dict) for key in row}, _are_all(rows, list)
        width = max(map(len, rows)) if are_lists else 0
        for names in (names for _, fields in lists if fields is not values for names in _name_columns(fields)):
            is_keyed = not are_lists and _are_all(rows, dict) and bool(keys) and keys <= {*names}
            if is_keyed or len(names) == width:
                yield place, (names, [[row.get(name) for name in names] for row in rows] if is_keyed else rows)
                break


def _find_lists(content: object, keys: tuple[str, ...]) -> Iterator[tuple[str, list[Any]]]:
    if isinstance(content, dict) and len(keys) <= MAX_DEPTH:
        for key, value in content.items():
            yield from _find_lists(value, (*keys, key))
    elif isinstance(content, list) and _is_table(content):
        yield ".".join(keys), content


def _name_columns(fields: list[Any]) -> Iterator[list[str]]:
    """Yield the names in descriptions of columns, by each key that has another name in each description."""
    for key in NAMES if _are_all(fields, dict) else ():
        names = [field.get(key) for field in fields]
        if _are_all(names, str) and all(names) and len({*names}) == len(names):
            yield names


def _unwrap(row: Any) -> Any:  # noqa: ANN401
    """Return the cells of a row such as `{"f": [{"v": 1}]}`, whose only key holds an object for each cell."""
    cells = next(iter(row.values())) if isinstance(row, dict) and len(row) == 1 else None
    if not isinstance(cells, list) or not all(
        cell is None or (isinstance(cell, dict) and "v" in cell) for cell in cells
    ):
        return row
    is_date = [isinstance(cell, dict) and str(cell["v"]).startswith("Date(") for cell in cells]
    return [cell and cell.get("f" if dated else "v") for cell, dated in zip(cells, is_date, strict=True)]


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], (dict, list))


def _are_all(values: object, kind: type) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(value, kind) for value in values)


def _of_rows(content: dict[str, Any]) -> Shape | None:
    """Return rows that stand beside their header; the names of rows are a column unless they only count."""
    rows = next((content[key] for key in ROWS if isinstance(content.get(key), list)), None)
    source = content["schema"] if isinstance(content.get("schema"), dict) else content
    header: list[Any] = next((source[key] for key in HEADERS if isinstance(source.get(key), list)), [])
    names = [field.get("name") if isinstance(field, dict) else field for field in header]
    if rows is None or not names or any(isinstance(name, (list, dict)) for name in names):
        return None
    if _are_all(rows, dict):
        if not any(name in row for row in rows for name in names):
            return None
        if _counts([row.get("index") for row in rows]):  # pandas' orient "table"
            names = [name for name in names if name != "index"]
        return names, [[row.get(name) for name in names] for row in rows]
    labels = content["index"] if isinstance(content.get("index"), list) else []
    return _name_rows(labels, names, rows)


def _of_columns(content: dict[str, Any]) -> Shape | None:
    """Return lists of cells of one length below their names, not all of which are tables themselves."""
    columns = list(content.values())
    if not _are_all(columns, list) or len(set(map(len, columns))) > 1 or all(map(_is_table, columns)):
        return None
    return list(content), list(map(list, zip(*columns, strict=True)))


def _of_keyed(content: dict[str, Any]) -> Shape | None:
    """Return a table whose rows and columns both have keys: whole numbers, or else kinds, show which are which."""
    objects = list(content.values())
    if not _are_all(objects, dict):
        return None
    outer, inner = list(content), list(dict.fromkeys(key for entry in objects for key in entry))
    are_whole = [all(map(_WHOLE.fullmatch, keys)) for keys in (outer, inner)]
    is_filled = sum(map(len, objects)) >= FILLED * len(inner) * len(objects) > 0
    if not is_filled or (len(objects) == 1 and not are_whole[1] and not all(map(_is_number, objects[0].values()))):
        return None
    as_columns = all(_are_alike(entry.values()) for entry in objects)
    as_rows = all(_are_alike(entry.get(key) for entry in objects) for key in inner)
    signs = (are_whole[0] - are_whole[1], as_rows - as_columns, len(outer) - len(inner))
    if next(filter(None, signs), 0) <= 0:
        outer, inner = inner, outer
        objects = [{name: content[name].get(row) for name in inner} for row in outer]
    return _name_rows(outer, inner, [[entry.get(name) for name in inner] for entry in objects])


def _name_rows(labels: list[Any], header: list[Any], rows: list[Any]) -> Shape:
    """Put labels before rows, if there is one for each and they do not only count from 0."""
    if len(labels) != len(rows) or _counts(labels):
        return header, rows
    return ["", *header], [[label, *row] for label, row in zip(labels, rows, strict=True)]


def _are_alike(values: Iterable[Any]) -> bool:
    return len({"number" if _is_number(value) else type(value) for value in values if value is not None}) < 2


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _counts(labels: list[Any]) -> bool:
    """Tell whether labels only count from 0."""
    return list(map(str, labels)) == list(map(str, range(len(labels))))
