"""Entries of files of JSON or JSON lines, and their parts, each of the type that it has to be of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from mate_cli.data.check import Problem, parse_json, parse_json_as

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
