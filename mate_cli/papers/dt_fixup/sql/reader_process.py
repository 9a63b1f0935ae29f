"""Read a database of SQLite in a process of its own, which can be killed at any time.

It is started as a script, knows no other part of the package, and needs 30 ms. It reads a request, a JSON object, from
its standard input, and writes lines of JSON as it finds something: a reader has what there was before a limit was met.
A query ends after a number of SQLite's steps, on any machine the same; what still takes too long ends by SIGALRM,
whatever SQLite is doing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
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


class _OpenError(Exception):
    """A database cannot be opened; the message says why."""


def answer_request() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    _limit(request)
    try:
        connection = _open_database(Path(request["path"]), Path(request["folder"]), request["disk"])
        connection.execute(f"PRAGMA hard_heap_limit = {int(request['memory'])}")
        objects = _objects(connection)
    except (_OpenError, sqlite3.Error, MemoryError, OSError, UnicodeError) as error:
        _tell(refused=_reason(error))
        return
    if "queries" in request:
        _run(request, objects, connection)
    else:
        _describe(request, objects, connection)


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _tell(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _reason(error: BaseException) -> str:
    if isinstance(error, UnicodeError):
        return "a name of it is not in UTF-8"
    return "out of memory" if isinstance(error, MemoryError) else str(error) or type(error).__name__


def _limit(request: Mapping[str, Any]) -> None:
    """Limit time, memory and files of this process, as far as the system can."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _set_alarm(request["seconds"])
    with suppress(ImportError):
        import resource

        seconds = int(request["seconds"] * len(request.get("queries", [1]))) + 1
        base = 1 << 28  # of addresses, which Python and its libraries have
        limits = {"RLIMIT_AS": 2 * request["memory"] + base, "RLIMIT_CPU": seconds}
        limits |= {"RLIMIT_FSIZE": request["disk"], "RLIMIT_CORE": 0}
        for name, most in limits.items():
            with suppress(AttributeError, ValueError, OSError):
                resource.setrlimit(getattr(resource, name), (most, most))


def _set_alarm(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _open_database(path: Path, folder: Path, disk: int) -> sqlite3.Connection:
    """Open a database so that nothing is written beside it.

    What another program has not written into it yet is applied to a copy. Without that, a database with a write-ahead
    log is immutable: SQLite would make two files beside it otherwise.
    """
    how = "mode=ro"
    pending = [file for end in ("-wal", "-journal") if _is_pending(file := path.with_name(path.name + end))]
    if pending:
        path, how = _copy_database(path, pending, folder, disk), "mode=rw"
    else:
        with path.open("rb") as opened:
            header = opened.read(_HEADER)
        size, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
        size = 65536 if size == 1 else size  # of a page
        is_counted = header.startswith(b"SQLite") and header[24:28] == header[92:96]  # else the number is an old one
        if is_counted and path.stat().st_size < size * pages:
            raise _OpenError("the file was cut off: it has fewer pages than it says")
        how = "immutable=1" if _WAL_VERSION in header[18:20] else how
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


def _copy_database(path: Path, pending: list[Path], folder: Path, disk: int) -> Path:
    files = [path, *pending]
    what = f"{' and '.join(file.name for file in pending)} holds changes that are not in it yet"
    before = _versions(files)
    if sum(size for size, _ in before) > disk:
        raise _OpenError(f"{what}, and it is larger than {disk >> 20} MB. Close the program that uses it")
    for file in files:
        shutil.copyfile(file, folder / file.name)
    if _versions(files) != before:
        raise _OpenError(f"{what}, and a program is writing it. Close that program, or give a copy")
    return folder / path.name


def _versions(files: list[Path]) -> list[tuple[int, int]]:
    """Return the size of each file and the time of its last change."""
    return [(file.stat().st_size, file.stat().st_mtime_ns) for file in files]


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


def _run(request: Mapping[str, Any], objects: list[tuple[str, str, str]], connection: sqlite3.Connection) -> None:
    """Tell the first rows of each query, and how many there are where these are not too many; then its end."""
    _connect_virtual(objects, connection)
    _allow_reading(connection, _OF_VIRTUAL_TABLES)
    connection.set_progress_handler(lambda: 1, request["steps"])  # it ends the statement that has taken so many
    for sql in request["queries"]:
        _set_alarm(request["seconds"])
        try:
            _tell_rows(connection.execute(sql), request)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
            _tell(error=_reason(error))
        _tell(end=True)


def _tell_rows(cursor: sqlite3.Cursor, request: Mapping[str, Any]) -> None:
    if cursor.description is None:
        raise ValueError("it gives no columns")
    _tell(names=[str(column[0]) for column in cursor.description])
    room, count = request["bytes"], 0
    for row in cursor:
        line = json.dumps({"row": list(map(_plain, row))})
        room -= len(line)
        if count == request["rows"] or room < 0:
            break
        sys.stdout.write(line + "\n")
        count += 1
    else:
        _tell(count=count)
        return
    _tell(more=True)
    count += 1 + sum(1 for _ in islice(cursor, request["counting"]))
    if next(cursor, None) is None:
        _tell(count=count)


def _plain(value: object) -> object:
    """Return a value as JSON has it; of a blob only its size."""
    return {"bytes": len(value)} if isinstance(value, bytes) else value


def _describe(request: Mapping[str, Any], objects: list[tuple[str, str, str]], connection: sqlite3.Connection) -> None:
    """Tell columns and keys of tables, then of views, but for the first ones; what cannot be read, with the reason."""
    _connect_virtual(objects, connection)
    _allow_reading(connection, _OF_SCHEMAS)
    shadows = set(_shadow_names(objects))
    shown = [
        (place, name, kind)
        for place, (name, kind, _) in enumerate(objects)
        if _lower(name) not in shadows and not _lower(name).startswith("sqlite_")
    ]
    shown.sort(key=lambda one: one[2] == "view")
    _tell(objects=[(place, name, "view" if kind == "view" else "table") for place, name, kind in shown])
    end = time.monotonic() + request["seconds"]
    for place, name, _ in shown[request["first"] :]:
        _set_alarm(max(0.001, min(request["patience"], end - time.monotonic())))
        try:
            _tell(place=place, **_parts(name, connection))
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
            _tell(place=place, error=_reason(error))
    _tell(end=True)


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
