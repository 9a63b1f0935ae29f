"""Databases of SQLite, which may be anyone's: their schemas, and what a query gives; nothing is ever written."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mate_cli.errors import DataError, MateError
from mate_cli.files.door import reading
from mate_cli.sql.schema import KINDS, Schema, SchemaColumn, SchemaTable
from mate_cli.sql.write import quoted_identifier

SECONDS = 5.0
"""The longest that a query may take."""
ROWS = 100
"""The most rows that are fetched."""

_MAGIC = b"SQLite format 3\0"
_STEPS = 10_000
"""Steps of SQLite's machine between two looks at the clock."""
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION})
_FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "writefile", "readfile", "edit", "fts3_tokenizer"})
_LONGEST_VALUE = 1 << 24
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")
_TYPES = {
    "number": re.compile(r"INT|REAL|FLOA|DOUB|NUM|DEC", re.IGNORECASE),
    "time": re.compile(r"DATE|TIME|YEAR", re.IGNORECASE),
    "boolean": re.compile(r"BOOL|^BIT$", re.IGNORECASE),
    "text": re.compile(r"CHAR|TEXT|CLOB|STRING|^$", re.IGNORECASE),
}


class UnrunnableQueryError(MateError):
    """SQLite refuses a query, or does not finish it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a query gives: names of columns, the first rows, and whether there are more."""

    names: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    more: bool = False


def is_database(path: Path) -> bool:
    """Whether a file begins as databases of SQLite do."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read_database_schema(path: Path) -> Schema:
    """The tables, views, columns and keys of a database.

    Raises:
        DataError: the file is missing, is no database, or has no tables.
    """
    with _opened(path) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY rowid")
        names = [str(name) for (name,) in found if not str(name).startswith("sqlite_")]
        schema = _schema(path.stem, names, connection)
    if not names:
        raise DataError("this database has no tables", where=str(path), remedy="Give another one")
    return schema


def run_query(sql: str, path: Path, *, seconds: float = SECONDS, rows: int = ROWS) -> Rows:
    """Run one query that only reads.

    It is stopped after some seconds; so many rows are fetched.

    Raises:
        UnrunnableQueryError: it does not run, would do something else than read, or takes too long.
        DataError: the file is missing, or no database.
    """
    with _opened(path) as connection:
        end = time.monotonic() + seconds
        connection.set_authorizer(_only_reading)
        connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        try:
            cursor = connection.execute(sql)
            found = cursor.fetchmany(rows + 1)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
            late = time.monotonic() > end
            problem = f"the query takes more than {seconds:g} seconds" if late else str(error)
            raise UnrunnableQueryError(problem, where=str(path)) from error
        names = tuple(str(column[0]) for column in cursor.description or ())
        return Rows(names, tuple(found[:rows]), more=len(found) > rows)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    remedy = "Give a database of SQLite"
    with reading(path, DataError, "no database can be read from it", remedy):
        if not path.is_file():
            raise DataError("there is no such file", where=str(path), remedy=remedy)
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        with closing(connection):
            connection.text_factory = lambda content: content.decode(errors="replace")
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            if hasattr(connection, "setlimit"):  # from Python 3.11 on
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            yield connection


def _only_reading(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action not in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _schema(name: str, names: Sequence[str], connection: sqlite3.Connection) -> Schema:
    columns: list[SchemaColumn] = []
    places: dict[tuple[str, str], int] = {}
    primary: dict[str, list[int | None]] = {}
    for table, original in enumerate(names, 1):
        for _, column, kind, _, _, key in connection.execute(f"PRAGMA table_info({quoted_identifier(original)})"):
            columns.append(SchemaColumn(table, words_of_name(column), column, _kind(kind)))
            places[original.lower(), column.lower()] = len(columns)
            primary.setdefault(original.lower(), []).extend([len(columns)] if key else [])
    foreign: list[tuple[int, int]] = []
    for original in names:
        for key in connection.execute(f"PRAGMA foreign_key_list({quoted_identifier(original)})"):
            target_table, target_column = str(key[2]).lower(), str(key[4] or "").lower()
            source = places.get((original.lower(), str(key[3]).lower()))
            keys = primary.get(target_table) or [None]
            target = places.get((target_table, target_column)) if target_column else keys[0]
            foreign += [(source, target)] if source and target else []
    tables = [SchemaTable(words_of_name(original), original) for original in names]
    return Schema.expanded(name, tables, columns, [key for keys in primary.values() for key in keys if key], foreign)


def words_of_name(name: str) -> str:
    """A name of SQL as people say it: "Song_Name", "songName" and "song name" are the same."""
    return " ".join(_WORD_START.sub(" ", name).lower().split()) or name


def _kind(declared: str) -> str:
    return next((kind for kind, pattern in _TYPES.items() if pattern.search(declared or "")), KINDS[-1])
