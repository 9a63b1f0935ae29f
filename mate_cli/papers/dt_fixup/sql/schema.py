"""Database schemas for text-to-SQL, with a "*" column per table and one without table.

Source: Xu et al. 2021 (DT-Fixup), the released code; Yu et al. 2018 (Spider), `tables.json`.
"""

from __future__ import annotations

import gzip
import json
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mate_cli.errors import DataError
from mate_cli.files.io_errors import shorten_reason, wrap_file_errors

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_KEYWORDS = """
abort action add after all alter always analyze and as asc attach autoincrement before begin between by cascade
case cast check collate column commit conflict constraint create cross current current_date current_time
current_timestamp database default deferrable deferred delete desc detach distinct do drop each else end escape
except exclude exclusive exists explain fail filter first following for foreign from full generated glob group
groups having if ignore immediate in index indexed initially inner insert instead intersect into is isnull join
key last left like limit match materialized natural no not nothing notnull null nulls of offset on or order others
outer over partition plan pragma preceding primary query raise range recursive references regexp reindex release
rename replace restrict returning right rollback row rows savepoint select set table temp temporary then ties to
transaction trigger unbounded union unique update using vacuum values view virtual when where window with within
without
"""
"""All SQLite keywords. Source: sqlite.org, "SQLite Keywords"."""
_OF_OTHER_DIALECTS = """
any connect_by_root cube current_user describe fetch grant ilike interval lateral lock partitioned_by qualify revoke
rlike rollup tablesample uncache xor
"""
"""Valid unquoted names in SQLite that sqlglot accepts only in quotes."""
_RESERVED = frozenset(_KEYWORDS.split())
_QUOTED_NAMES = _RESERVED.union(_OF_OTHER_DIALECTS.split(), ("true", "false"))


def fold(name: str) -> str:
    """Return a name as SQLite compares names: only the letters A to Z are lower-cased."""
    return name.translate(_LOWER)


def is_keyword(word: str) -> bool:
    """Return whether a word is a keyword of SQLite."""
    return fold(word) in _RESERVED


def quote_identifier(name: str) -> str:
    """Return a table or column name, quoted if SQL requires quotes."""
    is_plain = _PLAIN_NAME.fullmatch(name) and fold(name) not in _QUOTED_NAMES
    return name if is_plain else '"{}"'.format(name.replace('"', '""'))


STAR = 0
"""Number of the column "*" without a table, and of its pseudo table "*"."""
_GZIP = b"\x1f\x8b"
_MAX_BYTES = 200 << 20
"""Maximum size of an uncompressed schema file in bytes."""
KINDS = ("text", "number", "time", "boolean", "others")
"""Types of columns. Any type other than the first four is "others"."""


@dataclass(frozen=True, slots=True)
class SchemaTable:
    """The SQL name and the readable name of a table in a database schema.

    Args:
        name: human-readable name.
        original: name in SQL.
    """

    name: str
    original: str


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """The names, table and type of a column in a database schema.

    Args:
        table: number of its table.
        name: human-readable name.
        original: name in SQL.
        kind: one of `KINDS`.
    """

    table: int
    name: str
    original: str
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables and columns of a database, numbered from 0, including "*".

    Table 0 is the pseudo table "*". Tables 1 to T are the tables of the database. Column 0 is the "*" of table 0, and
    columns 1 to T are the "*" of tables 1 to T. The columns of the database follow.

    Args:
        name: name of the database.
        tables: T + 1 tables.
        columns: T + 1 star columns, then the columns of the database.
        primary_keys: numbers of columns.
        foreign_keys: pairs of columns, of which the first refers to the second.
        notes: omitted parts of the database, as sentences.
        values: texts in each column, in the order of `columns`; empty if the values were not read.
    """

    name: str
    tables: tuple[SchemaTable, ...]
    columns: tuple[SchemaColumn, ...]
    primary_keys: tuple[int, ...] = ()
    foreign_keys: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()
    values: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def from_parts(
        cls,
        name: str,
        tables: Sequence[SchemaTable],
        columns: Sequence[SchemaColumn],
        primary_keys: Sequence[int] = (),
        foreign_keys: Sequence[tuple[int, int]] = (),
        notes: tuple[str, ...] = (),
    ) -> Schema:
        """Build a schema by adding "*" to the tables and columns of a database.

        Args:
            name: name of the database.
            tables: tables of the database, numbered from 1.
            columns: columns of the database, numbered from 1.
            primary_keys: numbers of columns.
            foreign_keys: pairs of columns, of which the first refers to the second.
            notes: omitted parts of the database, as sentences.
        """
        count = len(tables)
        stars = (SchemaColumn(table, "*", "*") for table in range(count + 1))
        return cls(
            name,
            (SchemaTable("*", "*"), *tables),
            (*stars, *columns),
            tuple(key + count for key in primary_keys),
            tuple((source + count, target + count) for source, target in foreign_keys),
            notes,
        )

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> Schema:
        """Parse an entry of `tables.json`, the format of Spider.

        Raises:
            ValueError: the entry has another format. The message names the fault.
        """
        try:
            names = _zip_lists(entry, "table_names", "table_names_original")
            tables = [SchemaTable(_name(name), _name(original)) for name, original in names]
            star, *database_columns = _zip_lists(entry, "column_names", "column_names_original", "column_types") or [
                ("", "")
            ]
            if any(list(pair) != [-1, "*"] for pair in star[:2]):
                raise ValueError(f"columns begin with [-1, '*'], not with {star[0]!r}")
            _name(star[-1])
            columns = [_column(name, original, kind, len(tables)) for name, original, kind in database_columns]
            if not columns:
                raise ValueError(f"{_name(entry['db_id'])!r:.60} has no columns")
            primary = _column_numbers(entry["primary_keys"], columns)
            foreign = [
                (_column_number(source, columns), _column_number(target, columns))
                for source, target in entry["foreign_keys"]
            ]
            return cls.from_parts(_name(entry["db_id"]), tables, columns, primary, foreign)
        except (KeyError, TypeError, IndexError) as error:
            expected = "a schema has db_id, names, types and keys of tables and columns"
            raise ValueError(f"{expected} ({shorten_reason(error)})") from error

    def find_column(self, name: str, tables: Sequence[int] | None = None) -> int | None:
        """Return the number of the first column with this SQL name, or None.

        The comparison ignores the case of A to Z.

        Args:
            name: name of the column in SQL.
            tables: tables to search, in order of precedence. None: all tables.
        """
        searched_tables = range(1, len(self.tables)) if tables is None else tables
        folded_name = fold(name)
        database_columns = list(enumerate(self.columns))[len(self.tables) :]
        numbers = {
            column.table: number
            for number, column in reversed(database_columns)
            if fold(column.original) == folded_name
        }
        return next((numbers[table] for table in searched_tables if table in numbers), None)

    def find_table(self, name: str) -> int | None:
        """Return the number of the table with this SQL name, or None.

        The comparison ignores the case of A to Z.
        """
        numbers = range(1, len(self.tables))
        return next((number for number in numbers if fold(self.tables[number].original) == fold(name)), None)


def _zip_lists(entry: Mapping[str, Any], *keys: str) -> list[tuple[Any, ...]]:
    """Zip the lists under several keys of an entry. Raise `ValueError` if their lengths differ."""
    first, *other_keys = keys
    for key in other_keys:
        longer = len(entry[key]) - len(entry[first])
        if longer:
            raise ValueError(f"{key} is {'longer' if longer > 0 else 'shorter'} than {first}")
    return list(zip(*(entry[key] for key in keys), strict=True))


def _column(name: Any, original: Any, kind: Any, tables: int) -> SchemaColumn:  # noqa: ANN401 - what JSON holds
    table = name[0]
    if type(table) is not int or not 0 <= table < tables or original[0] != table:
        raise ValueError(f"column {name[1]!r} belongs to no table, or to two")
    return SchemaColumn(table + 1, _name(name[1]), _name(original[1]), kind if _name(kind) in KINDS else KINDS[-1])


def _name(value: Any) -> str:  # noqa: ANN401 - what JSON holds
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.60} is not text, as a name or type must be")
    return value


def _column_numbers(keys: Sequence[Any], columns: Sequence[SchemaColumn]) -> list[int]:
    """Return the validated column numbers, from 1, of primary keys. Nested lists are flattened."""
    flat = [number for key in keys for number in (key if isinstance(key, list) else [key])]
    return [_column_number(number, columns) for number in flat]


def _column_number(key: Any, columns: Sequence[SchemaColumn]) -> int:  # noqa: ANN401 - what JSON holds
    if type(key) is not int or not 1 <= key <= len(columns):
        raise ValueError(f"a key names column {key!r}, which does not exist")
    return key


def read_schemas(path: Path) -> dict[str, Schema]:
    """Read all schemas of a file in the format of `tables.json`, by database name.

    Raises:
        DataError: the file cannot be read or contains no schema.
    """
    hint = "A file of schemas is a list of objects, as Spider's tables.json is"
    with wrap_file_errors(path, DataError, "these schemas cannot be read", hint):
        entries = json.loads(_unpacked(path))
        schemas = [Schema.from_entry(entry) for entry in (entries if isinstance(entries, list) else [entries])]
    if not schemas:
        raise DataError("it has no schema", where=str(path), remedy=hint)
    by_name = {schema.name: schema for schema in schemas}
    if len(by_name) < len(schemas):
        raise DataError("two schemas have the same db_id", where=str(path), remedy="Rename one of them")
    return by_name


def _unpacked(path: Path) -> bytes:
    """Return the content of a file, decompressed if the file is gzip-compressed.

    The JSON parser handles a byte order mark.
    """
    with path.open("rb") as file:
        is_packed = file.read(len(_GZIP)) == _GZIP
    with gzip.open(path) if is_packed else path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"it has more than {_MAX_BYTES >> 20} MB")
    return content
