"""Parsers of release files: JSON and JSON lines with type checks, and CSV with a header."""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from io import StringIO
from pathlib import PurePosixPath
from typing import Any, TypeVar

from mate_cli.data.check import Problem, is_ragged, not_utf8, parse_json, parse_json_as
from mate_cli.tables.table import Cell, Table

Kind = TypeVar("Kind")

_KINDS: Mapping[type, str] = {
    str: "text",
    list: "a list",
    dict: "an object",
    int: "a whole number",
    bool: "true or false",
}


class DamagedEntryError(Exception):
    """Error for an invalid entry in a dataset file. Its message states the reason."""


@contextmanager
def note_damage(file: str, key: str, problems: list[Problem]) -> Iterator[None]:
    """Convert a `DamagedEntryError` within the context to a `Problem`, to continue reading.

    Args:
        file: file of the entry.
        key: key of the entry.
        problems: list that receives the problem.
    """
    try:
        yield
    except DamagedEntryError as error:
        problems.append(Problem(file, key, str(error)))


def read_entries(
    file: str, content: bytes, problems: list[Problem], expected: str = "a list of questions"
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (location, entry) of each object in a file that is a JSON list or JSON lines.

    Entries that are not objects are reported as problems.

    Args:
        file: name of the file.
        content: content of the file.
        problems: list that receives the problems.
        expected: expected content of the file, for the message.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    problem_count = len(problems)
    if _is_lines(content):
        entries = _of_lines(file, content, problems)
    else:
        items = parse_json_as(list, expected, file, content, problems)
        entries = [(f"entry {index}", entry) for index, entry in enumerate(items or ())]
        if items == []:
            problems.append(Problem(file, "", "is empty"))
    invalid_entries = [(key, entry) for key, entry in entries if not isinstance(entry, dict)]
    if invalid_entries and len(problems) == problem_count:
        more = f" (nor are {len(invalid_entries) - 1} more)" if len(invalid_entries) > 1 else ""
        problems.append(Problem(file, invalid_entries[0][0], f"is not a JSON object{more}"))
    yield from ((key, entry) for key, entry in entries if isinstance(entry, dict))


def _is_lines(content: bytes) -> bool:
    """Return whether a file is in JSON lines format, even if some lines are damaged.

    Otherwise the file has one JSON value, which may span several lines.
    """
    first, _, more = content.strip().partition(b"\n")
    if not more or first.startswith(b"{"):
        return first.startswith(b"{")
    return not first.startswith(b"[") or _is_json(first)


def _is_json(line: bytes) -> bool:
    with suppress(ValueError, RecursionError):
        json.loads(line)
        return True
    return False


def _of_lines(file: str, content: bytes, problems: list[Problem]) -> list[tuple[str, Any]]:
    """Parse the lines of a JSON lines file to pairs of location and value: ("line 3", {}).

    Unreadable lines are one problem, which names the first of them and their number.
    """
    entries: list[tuple[str, Any]] = []
    line_problems: list[Problem] = []
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            key, problem_count = f"line {number}", len(line_problems)
            value = parse_json(file, line, line_problems, key)
            if len(line_problems) == problem_count:
                entries.append((key, value))
    if line_problems:
        first, more = line_problems[0], len(line_problems) - 1
        message = f"{first.what} (and so are {more} more lines)" if more else first.what
        problems.append(Problem(file, first.key, message))
    return entries


def find_name(entry: Mapping[str, Any]) -> str:
    """Return the id of a question's JSON object (`_id`, `id` or `qid`), or "" if it has none."""
    names = (entry.get(key) for key in ("_id", "id", "qid"))
    return next((str(name) for name in names if (isinstance(name, str) and name) or type(name) is int), "")


def require_type(value: object, kind: type[Kind], label: str) -> Kind:
    """Return `value` if it has the type `kind`, else raise `DamagedEntryError`.

    Args:
        value: value to check.
        kind: required type.
        label: name of the value, for the message.

    Raises:
        DamagedEntryError: the value has another type.
    """
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise DamagedEntryError(f"{label} is missing or not {_KINDS[kind]}")


def require_part(entry: object, key: str, kind: type[Kind]) -> Kind:
    """Return the field `key` of a JSON object after checking that it has the type `kind`.

    Args:
        entry: object with the field.
        key: name of the field.
        kind: required type.

    Raises:
        DamagedEntryError: the field is missing or has another type, or the entry is not an object.
    """
    return require_type(require_type(entry, dict, f"what holds {key}").get(key), kind, key)


def find_text(entry: Mapping[str, Any], key: str) -> str:
    """Return an optional text field, or "" if it is missing or null.

    Raises:
        DamagedEntryError: the field is not text.
    """
    value = entry.get(key)
    return "" if value is None else require_type(value, str, key)


def require_text(entry: Mapping[str, Any], key: str) -> str:
    """Return the value of a field of a JSON object, which must be a non-empty text.

    Raises:
        DamagedEntryError: the field is missing, empty or not text.
    """
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise DamagedEntryError(f"{key} is missing, empty or not text")
    return value


def require_name(entry: Mapping[str, Any], key: str = "id") -> str:
    """Return an id as text after checking that it is text or an integer.

    Raises:
        DamagedEntryError: the field is missing, empty or has another type.
    """
    value = entry.get(key)
    return str(value) if type(value) is int else require_text(entry, key)


def require_list(entry: Mapping[str, Any], key: str) -> list[Any]:
    """Return a required field of a JSON object that must be a list with at least one item.

    Raises:
        DamagedEntryError: the field is missing, empty or not a list.
    """
    value = entry.get(key)
    if not isinstance(value, list) or not value:
        raise DamagedEntryError(f"{key} is missing, empty or not a list")
    return value


def require_texts(values: object, key: str) -> list[str]:
    """Return `values` after checking that it is a list of texts.

    Raises:
        DamagedEntryError: the value is not a list of texts.
    """
    return [require_type(value, str, f"{key} {index}") for index, value in enumerate(require_type(values, list, key))]


END = "the end"


def decode(file: str, content: bytes, problems: list[Problem]) -> str | None:
    """Decode UTF-8 text, or append a problem to `problems` and return None if it is invalid.

    Args:
        file: name of the file.
        content: content of the file.
        problems: list that receives the problem.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.append(not_utf8(file, content, error))
        return None


def read_text(file: str, content: bytes, problems: list[Problem], key: str = "") -> str:
    """Decode UTF-8 text, or append a problem to `problems` and return "".

    Blank text is a problem, too.

    Args:
        file: name of the file.
        content: content of the file.
        problems: list that receives the problem.
        key: key of the problem.
    """
    problem_count, text = len(problems), decode(file, content, problems) or ""
    if not text.strip() and len(problems) == problem_count:
        problems.append(Problem(file, key, "is empty"))
    return text if text.strip() else ""


def read_lines(file: str, content: bytes, problems: list[Problem], key: str = "") -> list[str]:
    """Split UTF-8 text into lines, and return the lines without line breaks.

    Append a problem and return [] if the file is blank or not UTF-8.

    Args:
        file: name of the file.
        content: content of the file.
        problems: list that receives the problem.
        key: key of the problem.
    """
    text = read_text(file, content, problems, key)
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def open_end(file: str, content: bytes) -> list[Problem]:
    """Return [problem] if the last line of a file lacks a line break, else [].

    A missing line break indicates truncation.
    """
    if not content or content.endswith((b"\n", b"\r")):
        return []
    number = content.count(b"\n") + 1
    return [Problem(file, f"line {number}", "has no line break at its end; the file may be truncated")]


class CsvTables:
    """Cache of the CSV tables of a dataset, each read once for all questions and splits.

    Args:
        content: function that returns the content of a file, or None if the file is missing.
        parse: function that parses a table, see `parse_csv_table`.
    """

    def __init__(
        self, content: Callable[[str], bytes | None], parse: Callable[[str, bytes, list[Problem]], Table | None]
    ) -> None:
        self._content, self._parse = content, parse
        self._tables: dict[str, tuple[Table | None, list[Problem]]] = {}

    def get(self, file: str, problems: list[Problem]) -> Table | None:
        """Return the table of a CSV file, which is parsed on the first call.

        If the file is missing or damaged, a problem is appended and None is returned.
        """
        if file not in self._tables:
            file_problems: list[Problem] = []
            self._tables[file] = self._look_up(file, file_problems), file_problems
        table, file_problems = self._tables[file]
        problems += [problem for problem in file_problems if problem not in problems]
        return table

    def _look_up(self, file: str, problems: list[Problem]) -> Table | None:
        path = PurePosixPath(file)
        try:
            content = None if path.is_absolute() or ".." in path.parts else self._content(file)
        # For example an invalid file name.
        except OSError as error:
            problems.append(Problem(file, "", f"cannot be read ({error.strerror})"))
            return None
        if content is None:
            problems.append(Problem(file, "", "is not there"))
            return None
        return self._parse(file, content, problems)


def parse_csv_table(
    file: str,
    content: bytes,
    problems: list[Problem],
    notes: list[Problem],
    *,
    suspicions: list[Problem] | None = None,
    backslashes: bool = False,
    clean: Callable[[str], str] = str,
) -> Table | None:
    """Parse a CSV file to a table with the file name as id, or return None if it is damaged.

    Empty lines are skipped. Rows that are too short are padded with empty cells, with a note. A row that is too long is
    a problem. The reader of google-research/tapas (pandas) does the same.

    Args:
        file: file name, and id of the table.
        content: content of the file.
        problems: list that receives problems.
        notes: list that receives observations that are not problems.
        suspicions: list that receives possible damage of a readable table. None discards it.
        backslashes: whether quotation marks inside cells are escaped by a backslash. Otherwise they are doubled.
        clean: function applied to the text of every body cell, but not to the header.
    """
    suspects = [] if suspicions is None else suspicions
    lines = _lines(file, content, problems, suspects, backslashes)
    if not lines:
        return None
    header, *rows = lines
    if is_ragged(file, "", header, rows, problems, longer=True):
        return None
    if short_rows := sum(len(row) < len(header) for row in rows):
        notes.append(Problem(file, "", f"rows that were too short and got empty cells: {short_rows}"))
    body = (row + [""] * (len(header) - len(row)) for row in rows)
    # Cached, because columns repeat few texts.
    cell = cache(lambda text: Cell(clean(text)))
    return Table(file, tuple(map(Cell, header)), tuple(tuple(map(cell, row)) for row in body))


def _lines(
    file: str, content: bytes, problems: list[Problem], suspicions: list[Problem], backslashes: bool
) -> list[list[str]]:
    text = read_text(file, content, problems)
    if not text:
        return []
    if "\0" in text:
        suspicions.append(Problem(file, "", "contains NUL characters"))
    escape = "\\" if backslashes else None
    reader = csv.reader(StringIO(text, newline=""), doublequote=not backslashes, escapechar=escape)
    try:
        lines = [line for line in reader if line]
    except csv.Error as error:
        problems.append(Problem(file, "", f"is not readable CSV ({error})"))
        return []
    if _is_open(text, escape):
        suspicions.append(Problem(file, "", "a quotation mark is never closed"))
    else:
        suspicions += open_end(file, content)
    return lines


def _is_open(text: str, escape: str | None) -> bool:
    """Return whether a CSV text has an unclosed quotation mark, as a truncated file has."""
    lines = csv.reader(StringIO(f"{text}\n{END}", newline=""), doublequote=escape is None, escapechar=escape)
    return deque(lines, maxlen=1) != deque([[END]])
