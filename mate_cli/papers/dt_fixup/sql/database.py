"""Databases of SQLite, which may be anyone's: their schemas, and what a query gives; nothing is ever written.

All reading is done by a process of its own (`reader_process.py`), of which steps, memory, rows, bytes and files are
limited, so that what is read does not depend on how busy a machine is; and time, for what hangs.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mate_cli.errors import DataError, MateError
from mate_cli.files.io_errors import wrap_read_errors
from mate_cli.papers.dt_fixup.sql.schema import KINDS, Schema, SchemaColumn, SchemaTable, fold, quote_identifier
from mate_cli.tables.formats.cell_text import list_names

STEPS = 500_000_000
"""The most instructions of SQLite's virtual machine that a query may take: some five seconds."""
SECONDS = 30.0
"""After which what hangs is ended: a query that takes few steps, and reading a schema."""
ROWS = 100
"""The most rows that are fetched."""
BYTES = 8 << 20
"""The most that fetched rows may have, as JSON."""
MEMORY = 256 << 20
"""The most bytes that SQLite may use, sorting included; temporary files are not written."""
MAX_COPY = 256 << 20
"""The most bytes of a database that is copied, since another program has changes of it that are not in it yet."""

_COUNTING = 1_000_000
"""The most rows that are counted, but not fetched."""
_PATIENCE = 5.0
"""Seconds for each table or view of a schema."""
_GRACE = 2.0
"""Seconds until a process is killed that does not end by itself."""
_MAX_NAMED = 20
"""The most tables and views that are named where they cannot be read."""
_READER = Path(__file__).with_name("reader_process.py")
_MAGIC = b"SQLite format 3\0"
_REMEDY = "Give a database of SQLite that no program is writing, neither packed nor encrypted nor a dump of SQL"
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
class Blob:
    """Bytes in a database, of which only the number is known."""

    size: int

    def __str__(self) -> str:
        return f"(blob of {self.size:,} byte{'s' * (self.size != 1)})"


Value = int | float | str | Blob | None


@dataclass(frozen=True, slots=True)
class Rows:
    """Result of a query.

    Args:
        names: of columns.
        rows: the first ones.
        more: there are others.
        count: of all rows; None where it is not known, and then there are more.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    more: bool = False
    count: int | None = None


def is_database(path: Path) -> bool:
    """Tell whether a file begins as databases of SQLite do."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read_database_schema(path: Path, *, seconds: float = SECONDS) -> Schema:
    """Return the tables, views, columns and keys of a database; its notes say what of them cannot be read.

    Raises:
        DataError: the file is missing, is no database, or has no tables that can be read.
    """
    objects, parts, problems = _describe_objects(path, seconds)
    notes = _notes([(f"{kind} {name}", problems[place]) for place, name, kind in objects if place in problems])
    found = {name: parts[place] for place, name, _ in sorted(objects) if place in parts}
    if not found:
        problem = "this database has no tables" + f" that can be read: {' '.join(notes)}" * bool(notes)
        raise DataError(problem, where=str(path), remedy="Give another one")
    return _schema(path.stem, found, notes)


def run_query(
    sql: str,
    path: Path,
    *,
    steps: int = STEPS,
    seconds: float = SECONDS,
    rows: int = ROWS,
    counting: int = _COUNTING,
) -> Rows:
    """Run one query that only reads.

    It is stopped after so many steps, or seconds; so many rows are fetched, and so many more are counted.

    Raises:
        UnrunnableQueryError: it does not run, would do something else than read, takes too long or too much memory.
        DataError: the file is missing, or no database.
    """
    limits = {"steps": steps, "rows": rows, "bytes": BYTES, "counting": counting}
    lines, end = _read(path, {"queries": [sql], **limits}, seconds)
    names: tuple[str, ...] | None = None
    found: list[tuple[Value, ...]] = []
    outcome: dict[str, Any] = {}
    for line in lines:
        if "row" in line:
            found.append(tuple(map(_value, line["row"])))
        elif "names" in line:
            names = tuple(line["names"])
        else:
            outcome |= line
    more = outcome.get("more", False)
    if names is None or not ("count" in outcome or more) or (more and rows and not found):
        problem = _problem(outcome.get("error"), end, seconds, steps)
        too_large = more and f"a row of it has more than {BYTES >> 20} MB"
        raise UnrunnableQueryError(too_large or problem, where=str(path))
    return Rows(names, tuple(found), more=more, count=outcome.get("count"))


def _value(value: Any) -> Value:  # noqa: ANN401 - what JSON holds
    return Blob(value["bytes"]) if isinstance(value, dict) else value


def _problem(error: str | None, end: int, seconds: float, steps: int = 0) -> str:
    """Write why a process has not found what it was asked for, in one line."""
    if error == "interrupted":
        return f"it takes more than {steps:,} steps of SQLite"
    if error and "out of memory" not in error:
        return error
    if error or end == 0:
        return f"it needs more than {MEMORY >> 20} MB of memory"
    if -end in (getattr(signal, "SIGALRM", None), getattr(signal, "SIGXCPU", None), getattr(signal, "SIGKILL", None)):
        return f"it takes more than {seconds:g} second{'s' * (seconds != 1)}"
    return f"SQLite crashes on it (signal {-end})" if end < 0 else f"the process that reads it failed ({end})"


def _read(path: Path, request: Mapping[str, Any], seconds: float) -> tuple[Iterator[dict[str, Any]], int]:
    """Read what a process of its own finds in a database, line by line, and how it ended: 0, a code, or minus a signal.

    Raises:
        DataError: the database cannot be opened.
    """
    with wrap_read_errors(path, DataError, "cannot be read as a database", _REMEDY):
        if not path.is_file():
            raise DataError(
                "is a folder" if path.is_dir() else "there is no such file", where=str(path), remedy=_REMEDY
            )
        with TemporaryDirectory() as folder:
            limits = {"seconds": seconds, "memory": MEMORY, "disk": MAX_COPY, "folder": folder}
            text = json.dumps({"path": str(path.resolve()), **limits, **request})
            output, end = _run_reader(text.encode(), seconds * len(request.get("queries", "1")) + _GRACE)
    if output.startswith(b'{"refused"'):
        problem = f"cannot be read as a database: {json.loads(output)['refused']}"
        raise DataError(problem, where=str(path), remedy=_REMEDY)
    return (json.loads(line) for line in BytesIO(output) if line.endswith(b"}\n")), end


def _run_reader(request: bytes, seconds: float) -> tuple[bytes, int]:
    """Run the process; whatever ends this one, such as Ctrl-C, ends it too."""
    command = [sys.executable, "-I", "-S", str(_READER)]
    try:
        ended = subprocess.run(
            command, input=request, stdout=subprocess.PIPE, timeout=seconds, start_new_session=True, check=False
        )
    except subprocess.TimeoutExpired as error:
        return error.output or b"", -getattr(signal, "SIGKILL", 9)
    return ended.stdout, ended.returncode


Objects = Sequence[tuple[int, str, str]]
"""Tables and views: place in the database, name, "table" or "view"; in the order in which they are read."""


def _describe_objects(path: Path, seconds: float) -> tuple[Objects, dict[int, dict[str, Any]], dict[int, str]]:
    """Return all tables and views, what they have, and why others cannot be read, by their places.

    What takes too long, or crashes, is left out; a new process goes on behind it while there is time.
    """
    objects: Objects | None = None
    parts: dict[int, dict[str, Any]] = {}
    problems: dict[int, str] = {}
    start = time.monotonic()
    while True:
        done = len(parts) + len(problems)
        left = seconds - (time.monotonic() - start)
        if objects is not None and left < _PATIENCE / 10:
            late = f"the schema takes more than {seconds:g} seconds"
            problems |= {place: late for place, _, _ in objects[done:]}
            return objects, parts, problems
        lines, end = _read(path, {"first": done, "patience": _PATIENCE}, left)
        for line in lines:
            if "objects" in line:
                objects = [tuple(one) for one in line["objects"]]
            elif "error" in line:
                problems[line["place"]] = line["error"]
            elif "place" in line:
                parts[line["place"]] = line
        if objects is None:
            raise DataError(f"cannot be read as a database: {_problem(None, end, seconds)}", where=str(path))
        done = len(parts) + len(problems)
        if done == len(objects):
            return objects, parts, problems
        problems[objects[done][0]] = _problem(None, end, min(_PATIENCE, left))


def _notes(unread: Sequence[tuple[str, str]], what: str = "Left out") -> tuple[str, ...]:
    """Return a sentence for each reason why some are left out, with the names of the first ones."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in unread:
        by_reason.setdefault(reason, []).append(name)
    return tuple(f"{what}: {list_names(names, _MAX_NAMED)} ({reason})." for reason, names in by_reason.items())


def _schema(name: str, parts: Mapping[str, Mapping[str, Any]], notes: tuple[str, ...]) -> Schema:
    columns: list[SchemaColumn] = []
    places: dict[tuple[str, str], int] = {}
    primary: dict[str, list[int]] = {}
    for table, (original, part) in enumerate(parts.items(), 1):
        numbered: list[tuple[int, int]] = []
        for column, kind, key in part["columns"]:
            columns.append(SchemaColumn(table, words_of_name(column), column, _kind(kind)))
            places[fold(original), fold(column)] = len(columns)
            numbered += [(key, len(columns))] if key else []
        primary[fold(original)] = [place for _, place in sorted(numbered)]
    tables = [SchemaTable(words_of_name(original), original) for original in parts]
    keys = sorted(key for some in primary.values() for key in some)
    return Schema.from_parts(name, tables, columns, keys, list(_foreign_keys(parts, places, primary)), notes)


def _foreign_keys(
    parts: Mapping[str, Mapping[str, Any]], places: Mapping[tuple[str, str], int], primary: Mapping[str, Sequence[int]]
) -> Iterator[tuple[int, int]]:
    """Return pairs of columns; a key that names none of its target refers to the primary key, in its order."""
    for original, part in parts.items():
        sizes = Counter(number for number, *_ in part["keys"])
        for number, place, table, source, target, *_ in part["keys"]:
            keys = primary.get(fold(table), ())
            if target is not None:
                end = places.get((fold(table), fold(target)))
            else:
                end = keys[place] if len(keys) == sizes[number] else None
            start = places.get((fold(original), fold(source)))
            if start and end:
                yield start, end


def words_of_name(name: str) -> str:
    """Return a name of SQL as people say it: "Song_Name", "songName" and "song name" are the same."""
    return " ".join(_WORD_START.sub(" ", name).lower().split()) or name


def _kind(declared: str) -> str:
    return next((kind for kind, pattern in _TYPES.items() if pattern.search(declared or "")), KINDS[-1])


MAX_TEXTS = 2000
"""Different texts of a column at most."""
MAX_LETTERS = 100
"""Of a text; longer ones are prose."""
MAX_ROWS = 100_000
"""Of a table that are looked at."""
_TEXT_STEPS = 10_000_000
"""For the texts of one column, which those of a view may exceed."""


def with_values(schema: Schema, path: Path, *, seconds: float = SECONDS) -> Schema:
    """Add to a schema the first texts that each of its columns holds, and a note of those that cannot be read.

    Args:
        schema: of the database.
        path: of its file.
        seconds: for what hangs: what comes after it has no texts.

    Raises:
        DataError: the file is missing, or no database.
    """
    values: list[tuple[str, ...]] = [()] * len(schema.columns)
    numbers = range(len(schema.tables), len(schema.columns))
    limits = {"steps": _TEXT_STEPS, "rows": MAX_TEXTS, "bytes": BYTES, "counting": 0}
    lines, end = _read(path, {"queries": [_query(schema.columns[n], schema) for n in numbers], **limits}, seconds)
    unread = []
    for number in numbers:
        answer = list(takewhile(lambda line: "end" not in line, lines))
        values[number] = tuple(sorted(str(_value(line["row"][0])) for line in answer if "row" in line))
        outcome = {name: value for line in answer for name, value in line.items()}
        if not values[number] and "count" not in outcome:
            column = schema.columns[number]
            problem = _problem(outcome.get("error"), end, seconds, _TEXT_STEPS)
            unread.append((f"{schema.tables[column.table].original}.{column.original}", problem))
    return replace(schema, values=tuple(values), notes=(*schema.notes, *_notes(unread, "No values were read of")))


def read_values(schema: Schema, path: Path) -> Schema:
    """Add the texts that columns hold, see `with_values`; a warning says which cannot be read."""
    known = with_values(schema, path)
    for note in known.notes[len(schema.notes) :]:
        warnings.warn(f"{path}: {note}", stacklevel=2)
    return known


def _query(column: SchemaColumn, schema: Schema) -> str:
    """Write a query for the texts of one column; a column that is not there is refused, and no text in quotes."""
    table, name = quote_identifier(schema.tables[column.table].original), f"t.{quote_identifier(column.original)}"
    rows = f"SELECT {name} AS text FROM {table} AS t LIMIT {MAX_ROWS}"
    where = f"typeof(text) = 'text' AND length(text) <= {MAX_LETTERS}"
    return f"SELECT DISTINCT text FROM ({rows}) WHERE {where} LIMIT {MAX_TEXTS}"
