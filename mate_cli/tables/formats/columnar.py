"""Parquet files, read in batches of rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
from pyarrow import Array, Scalar, types
from pyarrow.parquet import ParquetFile

from mate_cli.errors import DataError
from mate_cli.tables.formats.cell_text import spreadsheet_text
from mate_cli.tables.read_options import MEGABYTE, ReadOptions
from mate_cli.tables.table import Grid

AT_ONCE = 1024
"""Number of rows per batch that is converted to Python texts."""
_INDEX, _LEVEL = re.compile(r"__index_level_\d+__"), re.compile(r"'([^']+)'")


def read_parquet(path: Path, options: ReadOptions) -> Grid:
    """Open a Parquet file. An unnamed index saved by pandas is omitted.

    Raises:
        DataError: the file is too large, or a column has the type VARIANT, whose values are encoded bytes.
    """
    file = ParquetFile(path)
    metadata = file.metadata
    size = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    options.limits.check(path, rows=metadata.num_rows, columns=metadata.num_columns, megabytes=size / MEGABYTE)
    for field in file.schema_arrow:
        parts = [field.type.field(index).name for index in range(field.type.num_fields)]
        if types.is_struct(field.type) and parts[:2] == ["metadata", "value"] and len(parts) < 4:
            problem, hint = f"the column {field.name!r} is of the type VARIANT", "Write it as a text or as columns"
            raise DataError(problem, where=str(path), remedy=hint)
    names = [name for name in file.schema_arrow.names if not _INDEX.fullmatch(name)]
    # pandas writes the levels of a column name as a tuple.
    header = [" ".join(_LEVEL.findall(name)) if name.startswith("('") else name for name in names]
    return Grid(_lines(file, names), header)


def _lines(file: ParquetFile, names: list[str]) -> Iterator[list[str]]:
    for rows in file.iter_batches(AT_ONCE, columns=names, use_threads=False):
        for row in zip(*map(_values, rows.columns), strict=True):
            yield list(map(spreadsheet_text, row))


def _values(column: Array) -> list[Any]:
    """Convert an Arrow column to Python values, or to numpy scalars for floats of less than 64 bits.

    Dates that `datetime` cannot represent become texts.
    """
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_float32(column.type) or types.is_float16(column.type):
        return list(column.to_numpy(zero_copy_only=False))
    try:
        return column.to_pylist()
    except (ValueError, OverflowError):  # dates beyond the range of Python
        return list(map(_read_scalar, column))


def _read_scalar(scalar: Scalar) -> Any:  # noqa: ANN401
    """Convert an Arrow scalar to a Python value. Dates that `datetime` cannot represent become texts."""
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
