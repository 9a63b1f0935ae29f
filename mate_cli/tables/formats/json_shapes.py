"""Shapes that a table has in a JSON object: those of pandas, and lists under keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from mate_cli.errors import DataError

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
            and all(isinstance(one, type(content[0])) for one in content)
            and isinstance(content[0], (dict, list))
        ):
            yield place, lambda notes: (None, content)
        return
    if not isinstance(content, dict) or not content or len(keys) > MAX_DEPTH:
        return
    header = next((content[key] for key in HEADERS if isinstance(content.get(key), list)), None)
    rows = next((content[key] for key in ROWS if isinstance(content.get(key), list)), None)
    values = list(content.values())
    if isinstance(content.get("schema"), dict) and rows is not None:
        yield place, lambda notes: _of_schema(content["schema"], rows)
    elif header and rows is not None and (names := _names(header)):
        yield place, lambda notes: _split(names, rows, content.get("index"))
    elif all(isinstance(value, list) for value in values) and not _holds_rows(values):
        yield place, lambda notes: _of_columns(content, notes)
    elif _is_keyed(content):
        yield place, lambda notes: _of_keyed(content, notes)
    else:
        for key, value in content.items():
            yield from _tables(value, (*keys, key))


def _names(header: list[Any]) -> list[Any]:
    """Return the names of a header, which may be objects with a name each; none where it is something else."""
    names = [one.get("name") if isinstance(one, dict) else one for one in header]
    return [] if any(isinstance(name, (list, dict)) for name in names) else names


def _holds_rows(values: list[list[Any]]) -> bool:
    """Tell whether one of the lists is a table itself: of objects, or of lists where it is the only one."""
    full = list(filter(None, values))
    return any(all(isinstance(one, dict) for one in value) for value in full) or (
        len(full) == 1 and all(isinstance(one, list) for one in full[0])
    )


def _split(names: list[Any], rows: list[Any], index: object) -> Found:
    if rows and all(isinstance(row, dict) for row in rows):
        return names, [[row.get(name) for name in names] for row in rows]
    if not isinstance(index, list) or len(index) != len(rows) or _counts(index):
        return names, rows
    return ["", *names], [[label, *row] for label, row in zip(index, rows, strict=True)]


def _of_schema(schema: dict[str, Any], rows: list[Any]) -> Found:
    """Return a table of pandas' orient "table"; an index that only counts the rows is left out."""
    names = _names(schema.get("fields") or [])
    index = schema.get("primaryKey") or []
    kept = [
        name for name in names if [name] != index or name != "index" or not _counts([row.get(name) for row in rows])
    ]
    return kept, [[row.get(name) for name in kept] for row in rows]


def _of_columns(columns: dict[str, list[Any]], notes: list[str]) -> Found:
    if len(set(map(len, columns.values()))) > 1:
        notes.append("The lists differ in length: filled with empty cells.")
    return list(columns), list(map(list, zip_longest(*columns.values())))


def _is_keyed(content: dict[str, Any]) -> bool:
    """Tell whether objects of an object are its rows or columns: they have the same keys, or most of them."""
    objects = list(content.values())
    if not all(isinstance(one, dict) and one for one in objects):
        return False
    keys = set().union(*objects)
    is_flat = not any(isinstance(value, (dict, list)) for one in objects for value in one.values())
    if len(objects) == 1:
        return is_flat and (all(map(_WHOLE.fullmatch, keys)) or len(_kinds(objects[0].values())) < 2)
    share = sum(map(len, objects)) / (len(keys) * len(objects))
    return share == 1 or (is_flat and 3 * share >= 2)


def _of_keyed(content: dict[str, dict[str, Any]], notes: list[str]) -> Found:
    """Read a table whose rows and columns both have keys: numbers, or else kinds, show which are which."""
    outer, inner = list(content), list(dict.fromkeys(key for one in content.values() for key in one))
    are_whole = [all(map(_WHOLE.fullmatch, keys)) for keys in (outer, inner)]
    if are_whole[0] != are_whole[1]:
        outer_is_rows = are_whole[0]
    else:
        as_columns = all(len(_kinds(one.values())) < 2 for one in content.values())
        as_rows = all(len(_kinds(one.get(key) for one in content.values())) < 2 for key in inner)
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
