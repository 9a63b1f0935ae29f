"""Parquet, a few hundred rows at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.errors import DataError
from mate_cli.tables.formats.cell_text import cell_text
from mate_cli.tables.formats.grid import Grid

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

AT_ONCE = 512
_INDEX = re.compile(r"__index_level_\d+__")


def read_parquet(path: Path) -> Grid:
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
    names = [name for name in file.schema_arrow.names if not _INDEX.fullmatch(name)]
    return Grid(_lines(file, names), names)


def _lines(file: ParquetFile, names: list[str]) -> Iterator[list[str]]:
    for batch in file.iter_batches(batch_size=AT_ONCE, columns=names, use_threads=False):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield [cell_text(value) for value in row]
