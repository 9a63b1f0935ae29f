"""Schemas, column texts and query results of SQLite databases, which may be untrusted."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from mate_cli.errors import DataError
from mate_cli.papers.dt_fixup.sql.read_only import Definition, UnrunnableQueryError, open_database
from mate_cli.papers.dt_fixup.sql.schema import KINDS, Schema, SchemaColumn, SchemaTable, fold, quote_identifier
from mate_cli.tables.formats.cell_text import list_names

MAX_STEPS = 200_000_000
"""Maximum steps of SQLite's virtual machine per query, about five seconds."""
MAX_SECONDS, MAX_VALUES_SECONDS = 10.0, 30.0
"""Maximum CPU seconds of a query or of reading a schema, and of reading the texts of all columns."""
MAX_FETCHED_ROWS, MAX_COUNTED_ROWS = 100, 1_000_000
MAX_FETCHED_BYTES = 8 << 20
"""Maximum total length of the fetched rows, as text."""

_MAX_NAMED = 20
"""Maximum number of tables and views named in a note."""
_MAGIC = b"SQLite format 3\0"
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")
_TYPES = {
    "number": re.compile(r"INT|REAL|FLOA|DOUB|NUM|DEC", re.IGNORECASE),
    "time": re.compile(r"DATE|TIME|YEAR", re.IGNORECASE),
    "boolean": re.compile(r"BOOL|^BIT$", re.IGNORECASE),
    "text": re.compile(r"CHAR|TEXT|CLOB|STRING|^$", re.IGNORECASE),
}

Value = int | float | str | None
"""A value in a database. A blob is replaced by its size, as text."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Result of an SQL query: its column names and first rows.

    Args:
        names: names of the columns.
        rows: the first rows.
        more: whether the query has further rows.
        count: number of all rows. None if unknown, which implies further rows.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    more: bool = False
    count: int | None = None


def is_database(path: Path) -> bool:
    """Return whether a file starts with the header of a SQLite database."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read_database_schema(path: Path, *, seconds: float = MAX_SECONDS) -> Schema:
    """Read the schema of a SQLite database: tables, views, columns and keys.

    The notes of the schema list unreadable tables and views.

    Args:
        path: the database file.
        seconds: maximum CPU time in seconds.

    Raises:
        DataError: the file is missing, is no database, or has no tables that can be read.
    """
    definitions: dict[str, Definition] = {}
    failures = []
    with open_database(path, seconds) as database:
        internal = database.list_internal_tables()
        names = [(name, kind) for name, kind, _ in database.objects if fold(name) not in internal]
        for name, kind in sorted(names, key=lambda pair: pair[1] == "view"):  # Views take longer.
            try:
                definitions[name] = database.read_definition(name)
            except UnrunnableQueryError as error:
                failures.append((f"{'view' if kind == 'view' else 'table'} {name}", error.problem))
    notes = _notes(failures)
    if not definitions:
        problem = "this database has no tables" + f" that can be read: {' '.join(notes)}" * bool(notes)
        raise DataError(problem, where=str(path), remedy="Give another one")
    return _schema(path.stem, {name: definitions[name] for name, _ in names if name in definitions}, notes)


def run_query(
    sql: str,
    path: Path,
    *,
    steps: int = MAX_STEPS,
    seconds: float = MAX_SECONDS,
    rows: int = MAX_FETCHED_ROWS,
    counting: int = MAX_COUNTED_ROWS,
) -> Rows:
    """Run one SQL query on a database that is open for reading only, with limits on time and rows.

    Args:
        sql: the query.
        path: the database file.
        steps: maximum steps of SQLite.
        seconds: maximum CPU time.
        rows: maximum number of fetched rows.
        counting: maximum number of further rows that are counted.

    Raises:
        UnrunnableQueryError: the query fails, exceeds a limit, or would not only read.
        DataError: the file is missing or no database.
    """
    with open_database(path, seconds) as database:
        names, records = database.query(sql, steps)
        fetched: list[tuple[Value, ...]] = []
        room = MAX_FETCHED_BYTES
        for row in records:
            values = tuple(map(_convert, row))
            room -= sum(len(str(value)) for value in values)
            if len(fetched) == rows or room < 0:
                if rows and not fetched:
                    problem = f"a row of it has more than {MAX_FETCHED_BYTES >> 20} MB"
                    raise UnrunnableQueryError(problem, where=str(path))
                count = None
                with suppress(UnrunnableQueryError):
                    more = sum(1 for _ in islice(records, counting))
                    count = len(fetched) + 1 + more if next(records, None) is None else None
                return Rows(names, tuple(fetched), more=True, count=count)
            fetched.append(values)
    return Rows(names, tuple(fetched), count=len(fetched))


def _convert(value: Any) -> Value:  # noqa: ANN401 - whatever SQLite returns
    return f"(blob of {len(value):,} byte{'s' * (len(value) != 1)})" if isinstance(value, bytes) else value


def _notes(failures: Sequence[tuple[str, str]], prefix: str = "Left out") -> tuple[str, ...]:
    """Summarize failures as sentences, one per reason, with the names of the first tables or columns.

    Args:
        failures: name of each unread table or column, and the reason.
        prefix: start of each sentence.
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in failures:
        by_reason.setdefault(reason, []).append(name)
    return tuple(f"{prefix}: {list_names(names, _MAX_NAMED)} ({reason})." for reason, names in by_reason.items())


def _schema(name: str, parts: Mapping[str, Definition], notes: tuple[str, ...]) -> Schema:
    columns: list[SchemaColumn] = []
    numbers: dict[tuple[str, str], int] = {}
    primary: dict[str, list[int]] = {}
    for table, (original, part) in enumerate(parts.items(), 1):
        numbered: list[tuple[int, int]] = []
        for column, kind, key in part[0]:
            columns.append(SchemaColumn(table, words_of_name(column), column, _kind(kind)))
            numbers[fold(original), fold(column)] = len(columns)
            numbered += [(key, len(columns))] if key else []
        primary[fold(original)] = [number for _, number in sorted(numbered)]
    tables = [SchemaTable(words_of_name(original), original) for original in parts]
    keys = sorted(key for group in primary.values() for key in group)
    return Schema.from_parts(name, tables, columns, keys, list(_foreign_keys(parts, numbers, primary)), notes)


def _foreign_keys(
    parts: Mapping[str, Definition], numbers: Mapping[tuple[str, str], int], primary: Mapping[str, Sequence[int]]
) -> Iterator[tuple[int, int]]:
    """Yield the foreign keys of a database as pairs of column numbers: (column, column that it refers to).

    A foreign key without target columns refers to the primary key of the target table, in the order of its columns.
    """
    for original, part in parts.items():
        sizes = Counter(number for number, *_ in part[1])
        for number, position, table, source, target, *_ in part[1]:
            keys = primary.get(fold(table), ())
            if target is not None:
                end = numbers.get((fold(table), fold(target)))
            else:
                end = keys[position] if len(keys) == sizes[number] else None
            start = numbers.get((fold(original), fold(source)))
            if start and end:
                yield start, end


def words_of_name(name: str) -> str:
    """Split an SQL name into lower-case words: "Song_Name" and "songName" become "song name"."""
    return " ".join(_WORD_START.sub(" ", name).lower().split()) or name


def _kind(declared: str) -> str:
    return next((kind for kind, pattern in _TYPES.items() if pattern.search(declared or "")), KINDS[-1])


MAX_TEXTS = 2000
"""Maximum number of distinct texts per column."""
MAX_LETTERS = 100
"""Maximum length of a text. Longer texts are considered prose and skipped."""
MAX_ROWS = 100_000
"""Maximum number of rows per table that are searched for texts."""
_TEXT_STEPS = 10_000_000
"""Maximum SQLite steps for the texts of one column. The columns of a view may exceed it."""


def with_values(schema: Schema, path: Path, *, seconds: float = MAX_VALUES_SECONDS) -> Schema:
    """Return the schema with the first distinct texts of each database column added.

    Unreadable columns are listed in its notes.

    Args:
        schema: schema of the database.
        path: the database file.
        seconds: maximum CPU seconds for all columns.

    Raises:
        DataError: the file is missing or no database.
    """
    values: list[tuple[str, ...]] = [()] * len(schema.columns)
    failures = []
    with open_database(path, seconds) as database:
        for number in range(len(schema.tables), len(schema.columns)):
            column, texts = schema.columns[number], list[str]()
            try:
                for (text,) in database.query(_query(column, schema), _TEXT_STEPS)[1]:
                    texts.append(str(text))
            except UnrunnableQueryError as error:
                if not texts:
                    failures.append((f"{schema.tables[column.table].original}.{column.original}", error.problem))
            values[number] = tuple(sorted(texts))
    return replace(schema, values=tuple(values), notes=(*schema.notes, *_notes(failures, "No values were read of")))


def read_values(schema: Schema, path: Path) -> Schema:
    """Return the schema with the texts of each database column, and warn about unreadable columns."""
    result = with_values(schema, path)
    for note in result.notes[len(schema.notes) :]:
        warnings.warn(f"{path}: {note}", stacklevel=2)
    return result


def _query(column: SchemaColumn, schema: Schema) -> str:
    """Build the SQL query that reads the distinct texts of one database column.

    The prefix `t.` makes SQLite reject a missing column instead of reading its quoted name as a string.
    """
    table, name = quote_identifier(schema.tables[column.table].original), f"t.{quote_identifier(column.original)}"
    rows = f"SELECT {name} AS text FROM {table} AS t LIMIT {MAX_ROWS}"
    condition = f"typeof(text) = 'text' AND length(text) <= {MAX_LETTERS}"
    return f"SELECT DISTINCT text FROM ({rows}) WHERE {condition} LIMIT {MAX_TEXTS}"
