"""Tables in JSON files, in all common layouts.

Rows are objects or lists. They are consecutive values (JSON lines), the items of a list, or below keys of an object.
All layouts of `pandas.DataFrame.to_json(orient=...)` are supported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from mate_cli.errors import DataError
from mate_cli.tables.formats.cell_text import spreadsheet_text
from mate_cli.tables.formats.encoding import read_text
from mate_cli.tables.read_options import ReadOptions
from mate_cli.tables.table import Grid

YEARS = range(1000, 3000)
SHAPES = 'Write a list of objects, {"header": [...], "rows": [[...], ...]}, or a list per column, all of one length'
NAME_KEYS = ("name", "label", "title", "id")
"""Keys that contain the name in the description of a column."""
HEADERS, INDEX = ("header", "columns", "fields", "vars"), "index"
"""Keys of column names, which may be fewer than the columns or have no rows, and the key of row names."""
CELLS = {"fields", "properties", "attributes", "_source"}
"""Keys of the cells in records of Airtable, GeoJSON, ArcGIS, JSON:API and Elasticsearch."""
METADATA = {
    *("createdTime", "datasetid", "recordid", "record_timestamp", "type", "geometry", "bbox", "centroid"),
    *("links", "relationships", "_index", "_type", "_score"),
}
"""Keys of metadata in such records, which become no columns. An `id` becomes a column."""
MAX_DEPTH = 4
"""Maximum depth of nested keys above a table."""
FILLED = 2 / 3
"""Minimum share of cells that exist in an object of objects, such as {"row": {"column": 1}}, to be a table."""
_START = re.compile(r"(?:\A\s*(?:/\*.*?\*/\s*)?[a-zA-Z_][\w.]*\(\s*)?([^\s\ufeff,;)])")
"""Start of a value, possibly after the name of a function that takes it (JSONP)."""
_INTEGER = re.compile(r"-?[0-9]{1,18}")
Keys = tuple[str, ...]
Shape = tuple[list[Any] | None, list[Any]]
"""Header and rows of a table. Rows are lists of cells if there is a header. If it is None, the rows are objects whose
keys name the columns, or lists of which the first may be the header."""


def read_json(path: Path, options: ReadOptions) -> Grid:
    """Open a JSON file that contains rows as objects or lists, or an object with a table.

    Raises:
        DataError: the file is not text or contains no table. Later invalid JSON raises it when the lines are read.
    """
    text, has_lines = read_text(path, options.encoding), path.suffix.lower() != ".json"
    values, header, notes = _read_values(text.content, path), None, text.notes
    start = list(islice(values, 2))
    rows: Iterator[Any] = chain(start, values)
    if not start:
        raise DataError("this file is empty", where=str(path), remedy=SHAPES)
    if len(start) == 1 and not has_lines:
        header, content = find_table(start[0], path, notes)
        rows = iter(content)
    elif len(start) > 1 and isinstance(start[0], dict) and isinstance(start[1], list):
        # The first value is metadata, the second one contains the rows.
        header, _ = find_table({"0": start[0], "1": [start[1]]}, path, [])
        rows = chain(start[1:], values)
    elif any(map(_is_table, start[:1])):
        rows = chain.from_iterable(value if _is_table(value) else [value] for value in rows)
    if header is not None:
        return Grid(_lists(rows, path), list(map(spreadsheet_text, header)), notes=notes)
    rows = map(_unwrap, rows)
    first = next(rows, None)
    rows = chain([first], rows)
    if not isinstance(first, list):
        names: list[str] = []
        return Grid(_objects(rows, names, path), names, notes=notes)
    is_row = options.header is None and any(_is_number(value) and value not in YEARS for value in first)
    return Grid(_lists(rows, path), [] if is_row else None, notes=notes)


def _read_values(content: str, path: Path) -> Iterator[Any]:
    """Parse a text with several JSON values in sequence (JSON lines, or separated by commas), and yield the values.

    Raises:
        DataError: the file is not valid JSON.
    """
    position, decode = 0, json.JSONDecoder().raw_decode
    while match := _START.search(content, position):
        try:
            value, position = decode(content, match.start(1))
        except json.JSONDecodeError as error:
            location = f"{path}, line {1 + content.rstrip().count(chr(10), 0, error.pos)}"
            raise DataError(f"not valid JSON: {error.msg}", where=location, remedy="Fix the file") from error
        yield value


def _objects(values: Iterable[Any], header: list[str], path: Path) -> Iterator[list[str]]:
    """Yield the cell texts of each JSON object in the order of `header`, to which new keys are added."""
    keys = set[str]()
    for number, value in enumerate(values, 1):
        if not isinstance(value, dict):
            raise DataError(f"entry {number} is not an object", where=str(path), remedy=SHAPES)
        header += [key for key in value if key not in keys]
        keys.update(value)
        yield [spreadsheet_text(value.get(key)) for key in header]


def _lists(values: Iterable[Any], path: Path) -> Iterator[list[str]]:
    for number, value in enumerate(values, 1):
        if not isinstance(value, list):
            raise DataError(f"row {number} is not a list", where=str(path), remedy=SHAPES)
        yield list(map(spreadsheet_text, value))


def find_table(content: object, path: Path, notes: list[str]) -> Shape:
    """Return the header and the rows of the only table in the parsed content of a JSON file.

    Args:
        content: parsed content of the file.
        path: path of the file, for errors.
        notes: list to which a note on the keys of the table is added.

    Returns:
        The header, and the rows as lists. Or None, and rows as objects, or as lists whose first may be the header.

    Raises:
        DataError: the content has no table or several tables.
    """
    if isinstance(content, list) and len(content) == 2 and isinstance(content[0], dict) and _is_table(content[1]):
        content = dict(zip("01", content, strict=True))  # The first value is metadata.
    headed = list(_find_described(content))
    tables = [table for table in headed if table[1][1]] or headed[:1] or list(_tables(content, ()))
    tables = [table for table in tables if "schema" not in table[0]] or tables
    if len(tables) != 1:
        names = ", ".join(".".join(keys) for keys, _ in tables[:5])
        problem = f"it has several tables: {names}" if tables else "it has no table"
        raise DataError(problem, where=str(path), remedy="Save each in its own file" if tables else SHAPES)
    ((keys, shape),) = tables
    notes += [f"The table was read from {'.'.join(keys)!r}."] if keys else []
    return shape


def _tables(content: Any, keys: Keys) -> Iterator[tuple[Keys, Shape]]:  # noqa: ANN401
    """Search nested objects for tables, and yield each table with its path of keys."""
    if isinstance(content, dict) and content and len(keys) <= MAX_DEPTH:
        if shape := _of_columns(content) or _of_keyed(content):
            yield keys, shape
            return
        for key, value in content.items():
            yield from _tables(value, (*keys, key))
    elif _is_table(content):
        yield keys, (None, content)


def _find_described(content: object) -> Iterator[tuple[Keys, Shape]]:
    """Yield tables of the form {"columns": [...], "data": [...]}, whose column names are in a separate list.

    Each table is yielded with the path of keys to the object that contains both lists.
    """
    lists = dict(_find_lists(content, ()))
    for keys, values in lists.items():
        rows, labels = list(map(_unwrap, values)), lists.get((*keys[:-1], INDEX), [])
        headers = [(path, fields) for path, fields in lists.items() if path != keys and keys[-1] != INDEX]
        shapes = (_name_cells(rows, names, path) for path, fields in headers for names in _name_columns(path, fields))
        if shape := next(filter(None, shapes), None):
            yield keys[:-1], _name_rows(labels, *shape)


def _find_lists(content: object, keys: Keys) -> Iterator[tuple[Keys, list[Any]]]:
    if isinstance(content, dict) and len(keys) <= MAX_DEPTH:
        for key, value in content.items():
            yield from _find_lists(value, (*keys, key))
    elif isinstance(content, list) and keys:
        yield keys, content


def _name_columns(keys: Keys, fields: list[Any]) -> Iterator[list[Any]]:
    """Yield lists that may be the column names of a table in a JSON file.

    A candidate is a list of names, or one key of a list of column descriptions.

    Args:
        keys: path of keys to the list.
        fields: items of the list, such as [{"name": "city", "type": "string"}, ...].
    """
    for key in NAME_KEYS if _are_all(fields, dict) else ():
        names = [field.get(key) for field in fields]
        if _are_all(names, str) and all(names) and (len({*names}) == len(names) or keys[-1] in HEADERS):
            yield names
    if keys[-1] in HEADERS and fields and not any(isinstance(name, (list, dict)) for name in fields):
        yield fields


def _name_cells(rows: list[Any], names: list[Any], keys: Keys) -> tuple[list[Any], list[Any]] | None:
    """Return column names and rows of cells, or None if `names` are not the columns of `rows`.

    Args:
        rows: rows of a table, as objects or lists.
        names: candidates for the column names.
        keys: path of keys to the names. Below one of `HEADERS`, the names may be fewer than the columns.
    """
    row_keys = {key for row in rows if isinstance(row, dict) for key in row}
    if row_keys and row_keys <= {*names} and _are_all(rows, dict):
        # `orient="table"` of pandas includes the index.
        if _counts([row.get(INDEX) for row in rows]):
            names = [name for name in names if name != INDEX]
        return names, [[row.get(name) for name in names] for row in rows]
    is_header = keys[-1] in HEADERS and all(isinstance(row, list) for row in rows)
    return (names, rows) if is_header or (_are_all(rows, list) and len(names) == max(map(len, rows))) else None


def _unwrap(row: Any) -> Any:  # noqa: ANN401
    """Return the cells of a row that is wrapped, as by BigQuery, GeoJSON or SPARQL.

    Examples are `{"f": [{"v": 1}]}`, `{"type": "Feature", "properties": {"a": 1}}` and
    `{"a": {"type": "literal", "value": 1}}`. Other rows are returned unchanged.
    """
    if not isinstance(row, dict):
        return row
    if len(wrapped := CELLS & row.keys()) == 1 and row.keys() <= wrapped | METADATA | {"id", "_id"}:
        cells = row[wrapped.pop()]
        return {**{key: row[key] for key in ("id", "_id") if key in row}, **cells} if isinstance(cells, dict) else row
    if row and all(isinstance(cell, dict) and {"type", "value"} <= {*cell} for cell in row.values()):
        return {key: cell["value"] for key, cell in row.items()}
    cells = next(iter(row.values())) if len(row) == 1 else None
    if not isinstance(cells, list) or any(cell and not (isinstance(cell, dict) and "v" in cell) for cell in cells):
        return row
    return [cell and cell.get("f" if str(cell["v"]).startswith("Date(") else "v") for cell in cells]


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], (dict, list))


def _are_all(values: object, kind: type) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(value, kind) for value in values)


def _of_columns(content: dict[str, Any]) -> Shape | None:
    """Return the table of an object such as {"name": ["a", "b"], "age": [1, 2]}, or None if it has no such form."""
    columns = list(content.values())
    if not _are_all(columns, list) or len(set(map(len, columns))) > 1 or all(map(_is_table, columns)):
        return None
    return list(content), list(map(list, zip(*columns, strict=True)))


def _of_keyed(content: dict[str, Any]) -> Shape | None:
    """Return the table of an object of objects, such as {"row": {"column": 1}}, or None if it has no such form.

    Integer keys, or else the types of the values, determine whether the outer or inner keys name the rows.
    """
    objects = list(content.values())
    if not _are_all(objects, dict):
        return None
    row_names, column_names = list(content), list(dict.fromkeys(key for entry in objects for key in entry))
    are_whole = [all(map(_INTEGER.fullmatch, keys)) for keys in (row_names, column_names)]
    is_filled = sum(map(len, objects)) >= FILLED * len(column_names) * len(objects) > 0
    if not is_filled or (len(objects) == 1 and not are_whole[1] and not all(map(_is_number, objects[0].values()))):
        return None
    as_columns = all(_are_alike(entry.values()) for entry in objects)
    as_rows = all(_are_alike(entry.get(key) for entry in objects) for key in column_names)
    signs = (are_whole[0] - are_whole[1], as_rows - as_columns, len(row_names) - len(column_names))
    if next(filter(None, signs), 0) <= 0:
        row_names, column_names = column_names, row_names
        objects = [{name: content[name].get(row) for name in column_names} for row in row_names]
    return _name_rows(row_names, column_names, [[entry.get(name) for name in column_names] for entry in objects])


def _name_rows(labels: list[Any], header: list[Any], rows: list[Any]) -> Shape:
    """Add row labels as the first column, if each row has a label and the labels are not 0, 1, ..."""
    if len(labels) != len(rows) or _counts(labels):
        return header, rows
    return ["", *header], [[label, *row] for label, row in zip(labels, rows, strict=True)]


def _are_alike(values: Iterable[Any]) -> bool:
    return len({"number" if _is_number(value) else type(value) for value in values if value is not None}) < 2


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _counts(labels: list[Any]) -> bool:
    """Return whether labels only count rows: 0, 1, 2, ..."""
    return list(map(str, labels)) == list(map(str, range(len(labels))))
