"""Files of releases: JSON or JSON lines, each part of the type that it has to be of, and CSV with a header."""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
    """An entry cannot be used; the message says why."""


@contextmanager
def note_damage(file: str, key: str, problems: list[Problem]) -> Iterator[None]:
    """Append to `problems` why the entry at `key` cannot be used, and go on behind it."""
    try:
        yield
    except DamagedEntryError as error:
        problems.append(Problem(file, key, str(error)))


def read_entries(
    file: str, content: bytes, problems: list[Problem], what: str = "a list of questions"
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Place and content of each entry, of a list in JSON or of one entry a line; what is none is a problem.

    `what` the file holds is for people.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    known = len(problems)
    if _is_lines(content):
        entries = _of_lines(file, content, problems)
    else:
        whole = parse_json_as(list, what, file, content, problems)
        entries = [(f"entry {place}", entry) for place, entry in enumerate(whole or ())]
        if whole == []:
            problems.append(Problem(file, "", "is empty"))
    wrong = [(key, entry) for key, entry in entries if not isinstance(entry, dict)]
    if wrong and len(problems) == known:
        more = f" (nor are {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        problems.append(Problem(file, wrong[0][0], f"is not a JSON object{more}"))
    yield from ((key, entry) for key, entry in entries if isinstance(entry, dict))


def _is_lines(content: bytes) -> bool:
    """Tell lines of JSON, of which some may be damaged, from one value of many lines."""
    first, _, more = content.strip().partition(b"\n")
    if not more or first.startswith(b"{"):
        return first.startswith(b"{")
    return not first.startswith(b"[") or _is_json(first)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _of_lines(file: str, content: bytes, problems: list[Problem]) -> list[tuple[str, Any]]:
    """Return the value of every line that can be read; of the others the first one is a problem."""
    entries: list[tuple[str, Any]] = []
    wrong: list[Problem] = []
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            key, known = f"line {number}", len(wrong)
            value = parse_json(file, line, wrong, key)
            if len(wrong) == known:
                entries.append((key, value))
    if wrong:
        first, more = wrong[0], len(wrong) - 1
        what = f"{first.what} (and so are {more} more lines)" if more else first.what
        problems.append(Problem(file, first.key, what))
    return entries


def find_name(entry: Mapping[str, Any]) -> str:
    """Return the id of a question; "" without one."""
    names = (entry.get(key) for key in ("_id", "id", "qid"))
    return next((str(name) for name in names if (isinstance(name, str) and name) or type(name) is int), "")


def require_type(value: object, kind: type[Kind], what: str) -> Kind:
    """Return a value that has to be of a type.

    Raises:
        DamagedEntryError: `what` it is of is of another.
    """
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise DamagedEntryError(f"{what} is missing or not {_KINDS[kind]}")


def require_part(entry: object, key: str, kind: type[Kind]) -> Kind:
    """Return a part of an object that has to be there, and of a type.

    Raises:
        DamagedEntryError: it is not, or the entry is no object.
    """
    return require_type(require_type(entry, dict, f"what holds {key}").get(key), kind, key)


def find_text(entry: Mapping[str, Any], key: str) -> str:
    """Return a text that may be missing or null; "" then.

    Raises:
        DamagedEntryError: it is something else.
    """
    value = entry.get(key)
    return "" if value is None else require_type(value, str, key)


def require_text(entry: Mapping[str, Any], key: str) -> str:
    """Return a text that has to be there.

    Raises:
        DamagedEntryError: it is not, or it is empty.
    """
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise DamagedEntryError(f"{key} is missing, empty or not text")
    return value


def require_name(entry: Mapping[str, Any], key: str = "id") -> str:
    """Return a name that has to be there, which may be a whole number.

    Raises:
        DamagedEntryError: it is not, or it is something else.
    """
    value = entry.get(key)
    return str(value) if type(value) is int else require_text(entry, key)


def require_list(entry: Mapping[str, Any], key: str) -> list[Any]:
    """Return a list that has to be there, and not to be empty.

    Raises:
        DamagedEntryError: it is not.
    """
    value = entry.get(key)
    if not isinstance(value, list) or not value:
        raise DamagedEntryError(f"{key} is missing, empty or not a list")
    return value


def require_texts(values: object, key: str) -> list[str]:
    """Return a list of texts.

    Raises:
        DamagedEntryError: it is none, or one of them is something else.
    """
    return [require_type(value, str, f"{key} {place}") for place, value in enumerate(require_type(values, list, key))]


END = "the end"


def decode(file: str, content: bytes, problems: list[Problem]) -> str | None:
    """Decode UTF-8, or note a problem and return None."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.append(not_utf8(file, content, error))
        return None


def read_text(file: str, content: bytes, problems: list[Problem], key: str = "") -> str:
    """Decode UTF-8; "" and a problem where it is something else, or blank."""
    known, text = len(problems), decode(file, content, problems) or ""
    if not text.strip() and len(problems) == known:
        problems.append(Problem(file, key, "is empty"))
    return text if text.strip() else ""


def read_lines(file: str, content: bytes, problems: list[Problem], key: str = "") -> list[str]:
    """Read lines without their ends; none and a problem where the file is not UTF-8, or blank."""
    text = read_text(file, content, problems, key)
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def open_end(file: str, content: bytes) -> list[Problem]:
    """Suspect that a file of lines is cut, whose last line has no end; none of one that is empty."""
    if not content or content.endswith((b"\n", b"\r")):
        return []
    number = content.count(b"\n") + 1
    return [Problem(file, f"line {number}", "has no line break at its end; the file may be truncated")]


class CsvTables:
    """The tables of a dataset, each read once, however many questions and splits ask for it.

    Contents of files are None where they are not there; `parse` does as `parse_csv_table`.
    """

    def __init__(
        self, content: Callable[[str], bytes | None], parse: Callable[[str, bytes, list[Problem]], Table | None]
    ) -> None:
        self._content, self._parse = content, parse
        self._read: dict[str, tuple[Table | None, list[Problem]]] = {}

    def get(self, file: str, problems: list[Problem]) -> Table | None:
        """Return the table of a file; None, and a problem noted, when it is missing or damaged."""
        if file not in self._read:
            file_problems: list[Problem] = []
            self._read[file] = self._look_up(file, file_problems), file_problems
        table, file_problems = self._read[file]
        problems += [problem for problem in file_problems if problem not in problems]
        return table

    def _look_up(self, file: str, problems: list[Problem]) -> Table | None:
        path = PurePosixPath(file)
        try:
            content = None if path.is_absolute() or ".." in path.parts else self._content(file)
        except OSError as error:  # such as a name that no file can have
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
    """Read one table, which is named by its file; None when it is damaged.

    Lines without anything are no rows. Rows that end too early are filled up with empty cells, which is noted; rows
    that are too long are a problem. Both are what the reference's reader (pandas) does.

    Args:
        file: the table's name.
        content: of the file.
        problems: gets what is wrong.
        notes: gets what is worth knowing.
        suspicions: gets what looks like damage, though it can be read.
        backslashes: quotation marks inside cells stand behind a backslash; otherwise they are doubled.
        clean: is applied to the text of every body cell, not to the header.
    """
    suspects = [] if suspicions is None else suspicions
    lines = _lines(file, content, problems, suspects, backslashes)
    if not lines:
        return None
    header, *rows = lines
    if is_ragged(file, "", header, rows, problems, longer=True):
        return None
    if short := sum(len(row) < len(header) for row in rows):
        notes.append(Problem(file, "", f"rows that were too short and got empty cells: {short}"))
    body = (row + [""] * (len(header) - len(row)) for row in rows)
    cell = cache(lambda text: Cell(clean(text)))  # columns repeat few texts
    return Table(file, tuple(map(Cell, header)), tuple(tuple(map(cell, row)) for row in body))


def _lines(
    file: str, content: bytes, problems: list[Problem], suspicions: list[Problem], backslashes: bool
) -> list[list[str]]:
    text = read_text(file, content, problems)
    if not text:
        return []
    if "\0" in text:
        suspicions.append(Problem(file, "", "holds NUL characters"))
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
    """Tell whether a text ends inside quotation marks, so that a line after it would be part of its last cell."""
    lines = csv.reader(StringIO(f"{text}\n{END}", newline=""), doublequote=escape is None, escapechar=escape)
    return deque(lines, maxlen=1) != deque([[END]])
