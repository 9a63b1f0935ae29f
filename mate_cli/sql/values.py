"""Texts that the columns of a database hold, read by the process that reads databases, within its limits."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mate_cli.sql.database import SECONDS, UnrunnableQueryError, run_query
from mate_cli.sql.names import quoted_identifier
from mate_cli.sql.schema import Schema

MAX_TEXTS = 2000
"""Different texts of a column at most."""
MAX_LETTERS = 100
"""Of a text; longer ones are prose."""
MAX_COLUMNS = 200
"""Columns of one query; SQLite joins 500 queries by UNION ALL at most."""


def with_values(schema: Schema, path: Path, *, seconds: float = SECONDS) -> Schema:
    """Add to a schema the first texts that each of its columns holds; none where a column cannot be read.

    Raises:
        DataError: the file is missing, or no database.
    """
    found: list[list[str]] = [[] for _ in schema.columns]
    real = range(len(schema.tables), len(schema.columns))
    end = time.monotonic() + seconds
    for start in real[::MAX_COLUMNS]:
        for column, text in _texts(schema, path, real[start - real.start :][:MAX_COLUMNS], end):
            found[column].append(text)
    return replace(schema, values=tuple(tuple(sorted(texts)) for texts in found))


def _texts(schema: Schema, path: Path, columns: Sequence[int], end: float) -> Iterator[tuple[int, str]]:
    """Columns with texts that they hold. Where a query of several columns fails, each half is tried by itself."""
    left = end - time.monotonic()
    if not columns or left <= 0:
        return
    sql = " UNION ALL ".join(_query(schema, column) for column in columns)
    try:
        rows = run_query(sql, path, seconds=left, rows=MAX_TEXTS * len(columns), counting=0)
    except UnrunnableQueryError:
        rows = None
    if rows is not None and (not rows.more or len(columns) == 1):
        yield from ((int(str(column)), str(text)) for column, text in rows.rows)
    elif len(columns) > 1:
        half = len(columns) // 2
        yield from _texts(schema, path, columns[:half], end)
        yield from _texts(schema, path, columns[half:], end)


def _query(schema: Schema, number: int) -> str:
    """A query for the texts of one column; what the table does not have is no text in double quotes, but refused."""
    column = schema.columns[number]
    table, name = quoted_identifier(schema.tables[column.table].original), f"t.{quoted_identifier(column.original)}"
    where = f"typeof({name}) = 'text' AND length({name}) <= {MAX_LETTERS}"
    return f"SELECT * FROM (SELECT DISTINCT {number}, {name} FROM {table} AS t WHERE {where} LIMIT {MAX_TEXTS})"
