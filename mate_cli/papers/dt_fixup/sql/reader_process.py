"""Read a database of SQLite in a process of its own, which can end at any time.

It is started as a script, knows no other part of the package, and needs 30 ms. It reads a request, a JSON object, from
its standard input, and writes lines of JSON: one for each query, or for each table and view.
A query ends after a number of SQLite's steps, on any machine the same; what still takes too long ends with the process,
whatever SQLite is doing.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

_STEPS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33})
"""Actions that are allowed; 33 is SQLITE_RECURSIVE, which Python 3.10 has no name for."""
_FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "writefile", "readfile", "edit", "fts3_tokenizer"})
_OF_VIRTUAL_TABLES = frozenset({"data_version"})
"""Statements PRAGMA that full-text search uses itself."""
_OF_SCHEMAS = _OF_VIRTUAL_TABLES | {"table_xinfo", "foreign_key_list"}
_LONGEST_VALUE = 1 << 24
_WAL_VERSION, _HEADER = 2, 100
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
"""Endings of the tables in which the virtual tables of a module keep what they hold."""
_HIDDEN = 1
"""Columns that virtual tables take arguments by; generated columns are 2 and 3."""


LATE = 75
"""The exit status of a process that has come to its deadline."""
_ERRORS = (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError)


def answer_request() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    deadline = _Deadline(request["seconds"])
    with suppress(ImportError, ValueError, OSError):
        import resource

        addresses = 2 * request["memory"] + (1 << 28)  # also those of Python, to which names and statements come
        resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))
    try:
        connection = _open_database(Path(request["path"]))
        connection.execute(f"PRAGMA hard_heap_limit = {int(request['memory'])}")
        objects = _objects(connection)
    except (*_ERRORS, OSError) as error:
        _tell(refused=_reason(error))
        return
    _connect_virtual(objects, connection)
    if "queries" in request:
        _run(request, connection, deadline)
    else:
        _describe(objects, connection)


class _Deadline:
    """Ends the process when the time is over, or when there is nobody left to read what it writes."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.begin()
        threading.Thread(target=self._watch, args=(os.getppid(),), daemon=True).start()

    def begin(self) -> None:
        """Count from now on."""
        self._end = time.monotonic() + self._seconds

    def _watch(self, parent: int) -> None:
        while os.getppid() == parent and time.monotonic() < self._end:
            time.sleep(0.02)
        os._exit(LATE)


def _tell(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _reason(error: BaseException) -> str:
    if isinstance(error, UnicodeError):
        return "a name of it is not in UTF-8"
    return "out of memory" if isinstance(error, MemoryError) else str(error) or type(error).__name__


def _open_database(path: Path) -> sqlite3.Connection:
    """Open a database so that nothing is written beside it.

    One with a write-ahead log is immutable: SQLite would make two files beside it otherwise.
    """
    for file in (path.with_name(path.name + end) for end in ("-wal", "-journal")):
        if _is_pending(file):
            remedy = "Close the program that uses it, or VACUUM INTO a copy"
            raise ValueError(f"{file.name} holds changes that are not in it yet. {remedy}")
    with path.open("rb") as opened:
        header = opened.read(_HEADER)
    size, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
    size = 65536 if size == 1 else size  # of a page
    is_counted = header.startswith(b"SQLite") and header[24:28] == header[92:96]  # else the number is an old one
    if is_counted and path.stat().st_size < size * pages:
        raise ValueError("the file was cut off: it has fewer pages than it says")
    how = "immutable=1" if _WAL_VERSION in header[18:20] else "mode=ro"
    connection = sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, timeout=1, isolation_level=None)
    connection.text_factory = lambda content: content.decode(errors="replace")
    if hasattr(connection, "setlimit"):  # from Python 3.11 on
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    for setting in ("query_only = ON", "trusted_schema = OFF", "temp_store = MEMORY", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def _is_pending(file: Path) -> bool:
    """Tell whether a write-ahead log or a journal holds something; others are empty or begin with zeros."""
    with suppress(FileNotFoundError), file.open("rb") as opened:
        return any(opened.read(8))
    return False


def _objects(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Return all tables and views: name, "table", "view" or "virtual", and the statement that made it.

    Where SQLite cannot read one of these statements, it ignores it; nothing can be written all the same.
    """
    ask = "SELECT name, type, sql FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY rowid"
    try:
        rows = connection.execute(ask).fetchall()
    except sqlite3.DatabaseError as error:
        if not str(error).startswith("malformed database schema"):
            raise
        connection.execute("PRAGMA writable_schema = ON")
        rows = connection.execute(ask).fetchall()
    found = []
    for name, kind, sql in rows:
        virtual = kind == "table" and re.match(r"\s*CREATE\s+VIRTUAL\b", str(sql), re.IGNORECASE)
        found.append((str(name), "virtual" if virtual else str(kind), str(sql)))
    return found


def _connect_virtual(objects: list[tuple[str, str, str]], connection: sqlite3.Connection) -> None:
    """Let virtual tables prepare the statements of their own, before only reading is allowed."""
    for name, kind, _ in objects:
        if kind == "virtual":
            with suppress(sqlite3.Error):
                connection.execute(f"PRAGMA table_xinfo({_quote_name(name)})").fetchall()


def _allow_reading(connection: sqlite3.Connection, pragmas: frozenset[str]) -> None:
    def authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        allowed = action in _STEPS
        if action == sqlite3.SQLITE_PRAGMA:
            allowed = (first or "").lower() in pragmas
        elif action == sqlite3.SQLITE_FUNCTION:
            allowed = (second or "").lower() not in _FORBIDDEN_FUNCTIONS
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)


def _quote_name(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def _run(request: Mapping[str, Any], connection: sqlite3.Connection, deadline: _Deadline) -> None:
    """Answer each query by itself."""
    _allow_reading(connection, _OF_VIRTUAL_TABLES)
    connection.set_progress_handler(lambda: 1, request["steps"])  # it ends the statement that has taken so many
    for sql in request["queries"]:
        deadline.begin()
        answer: dict[str, Any] = {"rows": []}
        try:
            _fetch(connection.execute(sql), request, answer)
        except _ERRORS as error:
            answer["error"] = _reason(error)
        _tell(**answer)


def _fetch(cursor: sqlite3.Cursor, request: Mapping[str, Any], answer: dict[str, Any]) -> None:
    """Add to an answer the first rows of a query, and how many there are where these are not too many."""
    if cursor.description is None:
        raise ValueError("it gives no columns")
    answer["names"] = [str(column[0]) for column in cursor.description]
    rows, room = answer["rows"], request["bytes"]
    for row in cursor:
        values = list(map(_plain, row))
        room -= len(json.dumps(values))
        if len(rows) == request["rows"] or room < 0:
            answer["more"] = True
            count = len(rows) + 1 + sum(1 for _ in islice(cursor, request["counting"]))
            if next(cursor, None) is None:
                answer["count"] = count
            return
        rows.append(values)
    answer["count"] = len(rows)


def _plain(value: object) -> object:
    """Return a value as JSON has it; of a blob only its size."""
    return f"(blob of {len(value):,} byte{'s' * (len(value) != 1)})" if isinstance(value, bytes) else value


def _describe(objects: list[tuple[str, str, str]], connection: sqlite3.Connection) -> None:
    """Tell what there is, then columns and keys of tables, then of views; what cannot be read, with the reason."""
    _allow_reading(connection, _OF_SCHEMAS)
    shadows = set(_shadow_names(objects))
    shown = [
        (place, name, "view" if kind == "view" else "table")
        for place, (name, kind, _) in enumerate(objects)
        if _lower(name) not in shadows and not _lower(name).startswith("sqlite_")
    ]
    shown.sort(key=lambda one: one[2] == "view")
    _tell(objects=shown)
    for _, name, _ in shown:
        try:
            _tell(**_parts(name, connection))
        except _ERRORS as error:
            _tell(error=_reason(error))


def _parts(name: str, connection: sqlite3.Connection) -> dict[str, object]:
    rows = connection.execute(f"PRAGMA table_xinfo({_quote_name(name)})").fetchall()
    keys = connection.execute(f"PRAGMA foreign_key_list({_quote_name(name)})").fetchall()
    columns = [(str(row[1]), str(row[2] or ""), row[5]) for row in rows if row[6] != _HIDDEN]
    if not columns:
        raise ValueError("a name of it is not in UTF-8" if "\ufffd" in name else "its definition cannot be read")
    connection.execute(f"EXPLAIN SELECT * FROM {_quote_name(name)}").close()
    return {"columns": columns, "keys": sorted(keys, key=lambda key: (-key[0], key[1]))}


def _shadow_names(objects: list[tuple[str, str, str]]) -> Iterator[str]:
    for name, kind, sql in objects:
        module = _MODULE.search(sql) if kind == "virtual" else None
        for end in _SHADOWS.get(module[1].lower(), ()) if module else ():
            yield f"{_lower(name)}_{end}"


def _lower(name: str) -> str:
    return name.encode("utf-8", "replace").lower().decode("utf-8", "replace")  # of bytes: ASCII alone


if __name__ == "__main__":
    try:
        answer_request()
    except BrokenPipeError:
        os._exit(1)
