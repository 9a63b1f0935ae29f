"""Parquet, a few hundred rows at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy
from pyarrow import Array, RecordBatch, Scalar, compute, types
from pyarrow.parquet import ColumnChunkMetaData, FileMetaData, ParquetFile, read_metadata

from mate_cli.errors import DataError
from mate_cli.tables.formats.cell_text import spreadsheet_text
from mate_cli.tables.read_options import Limits, ReadOptions
from mate_cli.tables.table import Grid

AT_ONCE, PIECE = 1024, 1 << 23
"""Rows that are turned into texts of Python at once, and their bytes, which can take four times as many there."""
REFERENCE = 8
"""Bytes that a value takes at least in a list of Python."""
_INDEX, _LEVEL = re.compile(r"__index_level_\d+__"), re.compile(r"'([^']+)'")


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
    header = [" ".join(_LEVEL.findall(name)) if name.startswith("('") else name for name in names]  # levels of pandas
    return Grid(_lines(file, names, path, limits), header)


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


def _pieces(rows: RecordBatch) -> Iterator[RecordBatch]:
    """Return rows in parts of few megabytes, or single ones."""
    half = rows.num_rows // 2
    is_large = half and _weight(rows.to_struct_array()) > PIECE
    yield from chain(_pieces(rows.slice(0, half)), _pieces(rows.slice(half))) if is_large else [rows]


def _values(column: Array) -> list[Any]:
    """Return values of Python, or of numpy where these have a shorter decimal; far dates are texts."""
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_float32(column.type) or types.is_float16(column.type):
        return list(column.to_numpy(zero_copy_only=False))
    try:
        return column.to_pylist()
    except (ValueError, OverflowError):  # of dates that Python has no word for
        return list(map(_read_scalar, column))


def _read_scalar(scalar: Scalar) -> Any:  # noqa: ANN401
    """Return a value of Python, in which far dates are texts, however deep."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        if types.is_struct(scalar.type):
            return {name: _read_scalar(part) for name, part in scalar.items()}
        if types.is_nested(scalar.type):
            return list(map(_read_scalar, scalar.values))
        if not (types.is_timestamp(scalar.type) or types.is_date(scalar.type)):
            return str(scalar.cast("string"))
        unit: Any = "ms" if types.is_date64(scalar.type) else getattr(scalar.type, "unit", "D")
        return re.sub(r"( 00:00:00)?(\.0+)?$", "", str(numpy.datetime64(scalar.value, unit)).replace("T", " "))


def _weight(column: Array) -> int:
    """Return the bytes of the values, however deep; a text that stands once and is meant often counts as often."""
    kind = column.type
    if types.is_struct(kind):
        return sum(map(_weight, column.flatten()))
    if types.is_map(kind):
        return _weight(column.keys) + _weight(column.items)
    if types.is_nested(kind):
        return _weight(column.flatten())
    if types.is_dictionary(kind) and not types.is_primitive(kind.value_type):
        lengths = compute.binary_length(column.dictionary).take(column.indices)
        return (compute.sum(lengths).as_py() or 0) + REFERENCE * len(column)
    return max(column.nbytes, REFERENCE * len(column))
