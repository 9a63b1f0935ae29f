"""Parquet, a few hundred rows at a time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from pyarrow import Array, RecordBatch, Scalar, compute, large_binary, types
from pyarrow.parquet import ColumnChunkMetaData, FileMetaData, ParquetFile, read_metadata

from mate_cli.errors import DataError
from mate_cli.tables.formats.cell_text import spreadsheet_text
from mate_cli.tables.read_options import Limits, ReadOptions
from mate_cli.tables.table import Grid, column_name

AT_ONCE = 1024
PIECE = 1 << 23
"""Bytes of the rows that are turned into texts of Python at once, which can take four times as many."""
REFERENCE = 8
"""Bytes that a value takes at least in a list of Python."""
_INDEX = re.compile(r"__index_level_\d+__")


def read_parquet(path: Path, options: ReadOptions) -> Grid:
    """Open a Parquet file; the index that pandas may have saved is no column.

    Raises:
        DataError: it has a column of the type VARIANT, of which only coded bytes would be read.
    """
    limits, metadata = options.limits, read_metadata(path)
    sizes = (max(chunk.total_uncompressed_size, chunk.num_values * width) for chunk, width in _chunks(metadata))
    limits.check_bytes(path, int(sum(sizes)))  # pages, or values where these are more: equal ones are written once
    limits.check(path, rows=metadata.num_rows, columns=metadata.num_columns)
    dictionaries = [chunk.path_in_schema for chunk, _ in _chunks(metadata) if chunk.has_dictionary_page]
    file = ParquetFile(path, metadata=metadata, read_dictionary=dictionaries)  # long texts stand once
    for field in file.schema_arrow:
        parts = [field.type.field(place).name for place in range(field.type.num_fields)]
        if types.is_struct(field.type) and parts[:2] == ["metadata", "value"] and len(parts) < 4:
            problem, remedy = f"the column {field.name!r} is of the type VARIANT", "Write it as a text or as columns"
            raise DataError(problem, where=str(path), remedy=remedy)
    names = [name for name in file.schema_arrow.names if not _INDEX.fullmatch(name)]
    has_levels = len((file.schema_arrow.pandas_metadata or {}).get("column_indexes", ())) > 1
    return Grid(_lines(file, names, path, limits), list(map(_joined_levels, names)) if has_levels else names)


def _joined_levels(name: str) -> str:
    """Return a name that pandas wrote as a tuple, as it does where columns have names of several levels."""
    with suppress(ValueError, SyntaxError):
        return column_name(ast.literal_eval(name))
    return name


def _chunks(metadata: FileMetaData) -> Iterator[tuple[ColumnChunkMetaData, int]]:
    """Return each part of a column, with the bytes that a value of it takes at least."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for place in range(metadata.num_columns):
            yield group.column(place), max(metadata.schema.column(place).length, REFERENCE)


def _lines(file: ParquetFile, names: list[str], path: Path, limits: Limits) -> Iterator[list[str]]:
    size, groups = 0, ([group] for group in range(file.num_row_groups))  # each group has its own texts
    batches = (file.iter_batches(AT_ONCE, group, columns=names, use_threads=False) for group in groups)
    for rows in chain.from_iterable(map(_pieces, chain.from_iterable(batches))):
        weight = _weight(rows.to_struct_array())
        size += weight
        limits.check_bytes(path, size)
        limits.check_bytes(path, weight if rows.num_rows == 1 else 0, at_once=True)
        for row in zip(*map(_values, rows.columns), strict=True):
            yield [spreadsheet_text(value) for value in row]


def _values(column: Array) -> list[Any]:
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    with suppress(ValueError, OverflowError):  # of dates that Python has no word for
        if "float" not in str(column.type):
            return column.to_pylist()
    return list(map(_to_python, column))


def _to_python(value: Scalar) -> Any:  # noqa: ANN401
    """Return a value whose floats of 16 and 32 bits are numpy's, with their shortest decimal; far dates are texts."""
    kind = value.type
    if not value.is_valid:
        return None
    if types.is_floating(kind):
        return kind.to_pandas_dtype()(value.as_py())
    if types.is_struct(kind):
        return {name: _to_python(item) for name, item in value.items()}
    if types.is_map(kind):
        return [tuple(_to_python(pair).values()) for pair in value.values]
    if types.is_nested(kind):
        return list(map(_to_python, value.values))
    with suppress(ValueError, OverflowError):
        return value.as_py()
    return re.sub(r"( 00:00:00)?(\.0+)?$", "", str(value.cast("string")))


def _pieces(rows: RecordBatch) -> Iterator[RecordBatch]:
    """Return rows in parts of few megabytes, or single ones."""
    half = rows.num_rows // 2
    if half and _weight(rows.to_struct_array()) > PIECE:
        yield from chain(_pieces(rows.slice(0, half)), _pieces(rows.slice(half)))
    else:
        yield rows


def _weight(column: Array) -> int:
    """Return the bytes of the values, however deep; a text that stands once and is meant often counts as often."""
    kind = column.type
    if types.is_struct(kind):
        return sum(map(_weight, column.flatten()))
    if types.is_map(kind):
        start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
        return sum(_weight(part.slice(start, end - start)) for part in (column.keys, column.items))
    if types.is_nested(kind):
        return _weight(column.flatten())
    if types.is_dictionary(kind) and not types.is_primitive(kind.value_type):
        lengths = compute.binary_length(column.dictionary).take(column.indices)
        return (compute.sum(lengths).as_py() or 0) + REFERENCE * len(column)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        column = column.cast(large_binary())  # views of a few rows count the bytes of all
    return max(column.nbytes, REFERENCE * len(column))
