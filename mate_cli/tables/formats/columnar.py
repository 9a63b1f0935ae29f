"""Parquet, a few hundred rows at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.errors import DataError
from mate_cli.tables.formats.cell_text import spreadsheet_text
from mate_cli.tables.formats.grid import Grid
from mate_cli.tables.limits import Limits

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

AT_ONCE = 128
_INDEX = re.compile(r"__index_level_\d+__")


def read_parquet(path: Path, limits: Limits) -> Grid:
    """Open a Parquet file; the index that pandas may have saved is no column.

    Raises:
        DataError: it is damaged.
    """
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise DataError("this Parquet file cannot be read", where=str(path), remedy="Write it again") from error
    groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
    limits.check_bytes(path, sum(group.total_byte_size for group in groups))
    limits.check(path, rows=file.metadata.num_rows, columns=file.metadata.num_columns)
    names = [name for name in file.schema_arrow.names if not _INDEX.fullmatch(name)]
    return Grid(_lines(file, names, path, limits), names)


def _lines(file: ParquetFile, names: list[str], path: Path, limits: Limits) -> Iterator[list[str]]:
    size = 0
    for batch in file.iter_batches(batch_size=AT_ONCE, columns=names, use_threads=False):
        size += batch.nbytes  # a dictionary of a few long texts can stand for any number of them
        limits.check_bytes(path, size)
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield [spreadsheet_text(value) for value in row]
