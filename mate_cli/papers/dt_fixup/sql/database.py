"""Databases of SQLite, which may be anyone's: their schemas, and what a query gives; nothing is ever written.

All reading is done by a process of its own (`reader_process.py`), of which steps, memory, rows and bytes are limited,
so that what is read does not depend on how busy a machine is; and time, for what hangs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from mate_cli.errors import DataError, MateError
from mate_cli.files.io_errors import wrap_read_errors
from mate_cli.papers.dt_fixup.sql.reader_process import LATE
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

_COUNTING = 1_000_000
"""The most rows that are counted, but not fetched."""
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


Value = int | float | str | None
"""A value in a database; in place of bytes stands how many they are, in words."""


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
    lines, end = _read(path, {"seconds": seconds})
    unread = _problem(None, end, seconds)
    if not lines:
        raise DataError(f"cannot be read as a database: {unread}", where=str(path))
    objects = lines[0]["objects"]
    pairs = list(zip(objects, _filled(lines[1:], len(objects)), strict=True))
    missing = [(f"{kind} {name}", part) for (_, name, kind), part in pairs if "columns" not in part]
    reasons = chain([unread], repeat("the process that reads it ended before" if end < 0 else unread))
    notes = _notes([(name, part.get("error") or next(reasons)) for name, part in missing])
    found = {name: part for (_, name, _), part in sorted(pairs, key=lambda pair: pair[0]) if "columns" in part}
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
    limits = {"seconds": seconds, "steps": steps, "rows": rows, "bytes": BYTES, "counting": counting}
    answers, end = _read(path, {"queries": [sql], **limits})
    (answer,) = _filled(answers, 1)
    values, count, more = answer.get("rows", ()), answer.get("count"), answer.get("more", False)
    if "names" not in answer or not (count is not None or more) or (more and rows and not values):
        problem = _problem(answer.get("error"), end, seconds, steps)
        too_large = more and f"a row of it has more than {BYTES >> 20} MB"
        raise UnrunnableQueryError(too_large or problem, where=str(path))
    return Rows(tuple(answer["names"]), tuple(map(tuple, values)), more=more, count=count)


def _problem(error: str | None, end: int, seconds: float, steps: int = 0) -> str:
    """Write why a process has not found what it was asked for, in one line."""
    if error == "interrupted":
        return f"it takes more than {steps:,} steps of SQLite"
    if error and "out of memory" not in error:
        return error
    if error or end == 0:
        return f"it needs more than {MEMORY >> 20} MB of memory"
    if end == LATE:
        return f"it takes more than {seconds:g} second{'s' * (seconds != 1)}"
    return f"SQLite crashes on it (signal {-end})" if end < 0 else f"the process that reads it failed ({end})"


def _read(path: Path, request: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """Read what a process of its own finds in a database, line by line, and how it ended: 0, a code, or minus a signal.

    Whatever ends this process, such as Ctrl-C, ends that one too.

    Raises:
        DataError: the database cannot be opened.
    """
    with wrap_read_errors(path, DataError, "cannot be read as a database", _REMEDY):
        if not path.is_file():
            raise DataError(
                "is a folder" if path.is_dir() else "there is no such file", where=str(path), remedy=_REMEDY
            )
        text = json.dumps({"path": str(path.resolve()), "memory": MEMORY, **request})
        command = [sys.executable, "-I", "-S", str(_READER)]
        ended = subprocess.run(
            command, input=text.encode(), stdout=subprocess.PIPE, start_new_session=True, check=False
        )
    lines = [json.loads(line) for line in ended.stdout.splitlines(keepends=True) if line.endswith(b"}\n")]
    if lines and "refused" in lines[0]:
        problem = f"cannot be read as a database: {lines[0]['refused']}"
        raise DataError(problem, where=str(path), remedy=_REMEDY)
    return lines, ended.returncode


def _filled(lines: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return so many lines, empty ones in place of those that a process did not come to."""
    return [*lines, *({} for _ in range(count - len(lines)))]


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
    limits = {"seconds": seconds, "steps": _TEXT_STEPS, "rows": MAX_TEXTS, "bytes": BYTES, "counting": 0}
    answers, end = _read(path, {"queries": [_query(schema.columns[n], schema) for n in numbers], **limits})
    unread = []
    for number, answer in zip(numbers, _filled(answers, len(numbers)), strict=True):
        values[number] = tuple(sorted(text for (text,) in answer.get("rows", ())))
        if not values[number] and "count" not in answer:
            column = schema.columns[number]
            problem = _problem(answer.get("error"), end, seconds, _TEXT_STEPS)
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
