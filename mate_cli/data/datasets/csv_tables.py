"""Tables as CSV: the first line is the header."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable
from functools import cache
from io import StringIO
from pathlib import PurePosixPath

from mate_cli.data.check import Problem, is_ragged, not_utf8
from mate_cli.tables.table import Cell, Table

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
