"""Read-only SQLite databases with limits on steps, CPU time, memory and lengths.

SQLite enforces the limits: an authorizer only allows reading, and a progress handler terminates slow statements.
SQLite calls the handler between two steps. Functions whose time grows with the square of a length, such as `instr`,
therefore work on short values only, so that each step is short.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from mate_cli.errors import DataError, MateError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.papers.dt_fixup.sql.schema import fold, quote_identifier

MEMORY_BYTES = 256 << 20
"""Maximum memory of SQLite in this process in bytes, including sorting. Temporary files are not written."""
MAX_VALUE_BYTES, MAX_ARGUMENT_BYTES, MAX_TRIM_BYTES = 1 << 24, 1 << 17, 1 << 12
"""Maximum length of a value in bytes: in general, if a statement calls a function not in `_LINEAR`, and if it calls a
function in `_TRIM`."""
MAX_PATTERN_BYTES, MAX_INSTRUCTIONS = 500, 1 << 17
"""Maximum length of a LIKE pattern in bytes, and maximum number of instructions of a compiled statement."""
STEPS_PER_CALL, FUNCTION_STEPS_PER_CALL = 200, 50
"""Steps of SQLite between two calls of the progress handler."""

_HINT = "Give a database of SQLite that no program is writing, neither packed nor encrypted nor a dump of SQL"
_ERRORS = (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError)
_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33})
"""Allowed actions. 33 is SQLITE_RECURSIVE, which Python 3.10 does not name."""
_PRAGMAS = frozenset({"data_version", "table_xinfo", "foreign_key_list"})
"""Allowed pragmas. SQLite's full-text search itself uses `data_version`."""
_FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "writefile", "readfile", "edit", "fts3_tokenizer"})
_LINEAR = re.compile(
    r"(abs|avg|coalesce|count|date(time)?|ifnull|iif|julianday|length|lower|max|min|nullif|round|strftime|substr(ing)?"
    r"|sum|time|total|typeof|unixepoch|upper)\("
)
_TRIM = frozenset({"trim(2)", "ltrim(2)", "rtrim(2)"})
_WAL_VERSION = 2
_MODULE = re.compile(r"\bUSING\s+[\"'`\[]?(\w+)", re.IGNORECASE)
_FULL_TEXT, _TREE = ("content", "segments", "segdir", "docsize", "stat"), ("node", "rowid", "parent")
_SHADOWS: Mapping[str, tuple[str, ...]] = {
    "fts3": _FULL_TEXT,
    "fts4": _FULL_TEXT,
    "fts5": ("data", "idx", "content", "docsize", "config"),
    "rtree": _TREE,
    "rtree_i32": _TREE,
    "geopoly": _TREE,
    "spellfix1": ("vocab",),
    "vec0": ("chunks", "rowids", "info", "auxiliary", "vector_chunks00", "metadatachunks00"),
}
"""Suffixes of the internal tables of virtual tables, by module."""
_HIDDEN = 1
"""Code in `table_xinfo` of hidden columns, which pass arguments to virtual tables. Generated columns are 2 and 3."""
_NOT_UTF8 = "a name of it is not in UTF-8"


Definition = tuple[list[tuple[str, str, int]], list[Any]]
"""Columns (name, type, index in the primary key), and rows of PRAGMA foreign_key_list."""


class UnrunnableQueryError(MateError):
    """Error of a query that SQLite rejects or does not finish within the limits."""


class ReadOnlyDatabase:
    """A SQLite database that is open for reading only.

    Args:
        path: the SQLite file.
        connection: connection to this file.
        seconds: maximum CPU seconds for all reads.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, seconds: float) -> None:
        self._path, self._connection, self._seconds = path, connection, seconds
        self._end, self._steps, self._max_steps = time.thread_time() + seconds, 0, float("inf")
        connection.text_factory = lambda content: content.decode(errors="replace")
        if hasattr(connection, "setlimit"):  # Python 3.11 or later
            connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN_BYTES)
            connection.setlimit(sqlite3.SQLITE_LIMIT_VDBE_OP, MAX_INSTRUCTIONS)
        self._limit_call(STEPS_PER_CALL, MAX_VALUE_BYTES)
        for setting in ("query_only = ON", "trusted_schema = OFF", "temp_store = MEMORY", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute(f"PRAGMA hard_heap_limit = {MEMORY_BYTES}")
        self.objects = self._find_objects()
        """Name, "table", "view" or "virtual", and the CREATE statement of each table and view."""
        for name, kind, _ in self.objects:
            if kind == "virtual":  # Virtual tables prepare their own statements, which the authorizer would deny.
                with suppress(sqlite3.Error):
                    connection.execute(f"PRAGMA table_xinfo({quote_identifier(name)})").fetchall()
        connection.set_authorizer(self._authorize)
        self._limit_call(FUNCTION_STEPS_PER_CALL, MAX_ARGUMENT_BYTES)

    def query(self, sql: str, max_steps: float = float("inf")) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
        """Run an SQL statement, which may only read, and return its column names and rows.

        Args:
            sql: the statement.
            max_steps: maximum steps of SQLite's virtual machine.

        Returns:
            The names of the columns, and the rows. Both raise `UnrunnableQueryError`.
        """
        self._steps, self._max_steps = 0, max_steps
        with self._sqlite_errors():
            self._limit_functions(sql)
            cursor = self._connection.execute(sql)
            if cursor.description is None:
                raise ValueError("it gives no columns")
            names = tuple(str(column[0]) for column in cursor.description)
        return names, self._iterate(cursor)

    def _iterate(self, cursor: sqlite3.Cursor) -> Iterator[tuple[object, ...]]:
        with self._sqlite_errors():
            # `yield from` would close the cursor, possibly after its connection.
            for row in cursor:  # noqa: UP028
                yield row

    @contextmanager
    def _sqlite_errors(self) -> Iterator[None]:
        """Convert SQLite errors to `UnrunnableQueryError`, or KeyboardInterrupt after Ctrl-C.

        SQLite reports Ctrl-C as an interrupted statement.
        """
        try:
            yield
        except _ERRORS as error:
            exceeded = self._exceeded()
            if str(error) == "interrupted" and not exceeded:
                raise KeyboardInterrupt from error
            raise UnrunnableQueryError(exceeded or _reason(error), where=str(self._path)) from error

    def _limit_call(self, steps: int, length: int) -> None:
        """Limit a statement: check its run time every `steps` steps, and limit lengths of values."""

        def count() -> int:
            self._steps += steps
            return bool(self._exceeded())

        self._connection.set_progress_handler(count, steps)
        if hasattr(self._connection, "setlimit"):
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)

    def _exceeded(self) -> str:
        """Describe the limit of steps or CPU time that the statement exceeds. Return "" if it exceeds none."""
        if self._steps > self._max_steps:
            return f"it takes more than {self._max_steps:,} steps of SQLite"
        return f"it takes more than {self._seconds:g} s of CPU time" if time.thread_time() > self._end else ""

    def _limit_functions(self, sql: str) -> None:
        """Limit the length of values by the functions that an SQL statement calls.

        This bounds the time of slow functions. Functions in views and generated columns are included.
        """
        self._limit_call(FUNCTION_STEPS_PER_CALL, MAX_ARGUMENT_BYTES)  # EXPLAIN can compute constants.
        program = self._connection.execute(f"EXPLAIN {sql}")
        functions = {str(row[5]) for row in program if row[1] in ("Function", "PureFunc", "AggStep")}
        slow = {function for function in functions if not _LINEAR.match(function)}
        if slow - {"like(2)"} and not hasattr(self._connection, "setlimit"):
            raise ValueError(f"the functions {', '.join(sorted(slow))} need Python 3.11")
        if functions & _TRIM:
            self._limit_call(FUNCTION_STEPS_PER_CALL, MAX_TRIM_BYTES)
        elif not slow:
            self._limit_call(STEPS_PER_CALL, MAX_VALUE_BYTES)

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        is_allowed = action in _READING
        if action == sqlite3.SQLITE_PRAGMA:
            is_allowed = (first or "").lower() in _PRAGMAS
        elif action == sqlite3.SQLITE_FUNCTION:
            is_allowed = (second or "").lower() not in _FORBIDDEN_FUNCTIONS
        # Compiling calls no progress handler, but this function for each column that a nested view reads.
        return sqlite3.SQLITE_OK if is_allowed and not self._exceeded() else sqlite3.SQLITE_DENY

    def _find_objects(self) -> list[tuple[str, str, str]]:
        """List the tables and views of the database as (name, type, SQL definition).

        With `writable_schema`, SQLite skips unreadable definitions instead of raising an error.
        """
        statement = "SELECT name, type, sql FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY rowid"
        try:
            rows = self._connection.execute(statement).fetchall()
        except sqlite3.DatabaseError as error:
            if not str(error).startswith("malformed database schema"):
                raise
            self._connection.execute("PRAGMA writable_schema = ON")  # The file is open for reading only.
            rows = self._connection.execute(statement).fetchall()
        virtual = re.compile(r"\s*CREATE\s+VIRTUAL\b", re.IGNORECASE)
        return [
            (str(name), "virtual" if kind == "table" and virtual.match(str(sql)) else str(kind), str(sql))
            for name, kind, sql in rows
        ]

    def list_internal_tables(self) -> set[str]:
        """Return the folded names of tables that SQLite and virtual tables use internally."""
        names = {fold(name) for name, _, _ in self.objects if fold(name).startswith("sqlite_")}
        for name, kind, sql in self.objects:
            module = _MODULE.search(sql) if kind == "virtual" else None
            names |= {f"{fold(name)}_{suffix}" for suffix in _SHADOWS.get(module[1].lower() if module else "", ())}
        return names

    def read_definition(self, name: str) -> Definition:
        """Return the columns and foreign keys of a table or view.

        Raises:
            UnrunnableQueryError: the definition cannot be read.
        """
        identifier = quote_identifier(name)
        with self._sqlite_errors():
            rows = self._connection.execute(f"PRAGMA table_xinfo({identifier})").fetchall()
            keys = self._connection.execute(f"PRAGMA foreign_key_list({identifier})").fetchall()
            columns = [(str(row[1]), str(row[2] or ""), row[5]) for row in rows if row[6] != _HIDDEN]
            if not columns:
                raise ValueError(_NOT_UTF8 if "\ufffd" in name else "its definition cannot be read")
            self._connection.execute(f"EXPLAIN SELECT * FROM {identifier}").close()
        return columns, sorted(keys, key=lambda key: (-key[0], key[1]))


@contextmanager
def open_database(path: Path, seconds: float) -> Iterator[ReadOnlyDatabase]:
    """Open a SQLite file so that no file is written next to it.

    Args:
        path: the SQLite file.
        seconds: maximum CPU seconds for all reads.

    Raises:
        DataError: the file is missing, locked or no database, or recent changes are only in its log file.
    """
    with ExitStack() as stack:
        with wrap_file_errors(path, DataError, "cannot be read as a database", _HINT):
            if not path.is_file():
                problem = "is a folder" if path.is_dir() else "there is no such file"
                raise DataError(problem, where=str(path), remedy=_HINT)
            file = path.resolve()
            for log in (file.with_name(file.name + suffix) for suffix in ("-wal", "-journal")):
                if log.exists() and any(_read_start(log, 8)):  # A log without changes is empty or starts with zeros.
                    hint = "Close the program that uses it, or VACUUM INTO a copy"
                    raise ValueError(f"{log.name} contains changes that are not in the database yet. {hint}")
            header = _read_start(file, 100)
            page_bytes, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
            is_current = header.startswith(b"SQLite") and header[24:28] == header[92:96]  # Old SQLite counts no pages.
            if is_current and file.stat().st_size < (65536 if page_bytes == 1 else page_bytes) * pages:
                raise ValueError("the file is truncated: it has fewer pages than its header states")
            # SQLite would create two files for a database that had a write-ahead log.
            mode = "immutable=1" if _WAL_VERSION in header[18:20] else "mode=ro"
            connection = sqlite3.connect(f"{file.as_uri()}?{mode}", uri=True, timeout=1, isolation_level=None)
            database = ReadOnlyDatabase(path, stack.enter_context(closing(connection)), seconds)
        yield database


def _read_start(path: Path, length: int) -> bytes:
    with path.open("rb") as file:
        return file.read(length)


def _reason(error: BaseException) -> str:
    if isinstance(error, UnicodeError):
        return _NOT_UTF8
    if isinstance(error, MemoryError) or "out of memory" in str(error):
        return f"it needs more than {MEMORY_BYTES >> 20} MB of memory"
    return str(error) or _NOT_UTF8  # Python 3.10 returns "" if the message is not valid UTF-8.
