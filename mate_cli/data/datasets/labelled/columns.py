"""Rows of files of questions; columns that are missing, and others whose names are spelled nearly like theirs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mate_cli.data.archive import read_file
from mate_cli.data.check import Problem
from mate_cli.data.datasets.csv_tables import decode
from mate_cli.data.datasets.labelled.rows import NAMES
from mate_cli.errors import DataError
from mate_cli.quoting import format_setting
from mate_cli.tables.read import SUFFIXES, open_table

NEEDED = (("question",), ("table", "database"), ("answer", "coordinates", "number", "label", "sql"))
"""What rows have: of each, one."""
ALIKE = 0.75
"""How much of two names must be equal, from 0 to 1."""
JSON_LINES, JSON = (".jsonl", ".ndjson"), (".json",)


def check_columns(names: Iterable[str], columns: Mapping[str, str], place: str) -> None:
    """Refuse rows that lack a column which they need where another one is spelled nearly so.

    Args:
        names: those that rows have.
        columns: what some are called there, by our names.
        place: the file, to name it.

    Raises:
        DataError: with both names.
    """
    there = [name.strip().lower() for name in names]
    for needed in NEEDED:
        wanted = [name for ours in needed for name in ([columns[ours].lower()] if ours in columns else NAMES[ours])]
        if any(name in there for name in wanted):
            continue
        if pair := _near(wanted, unknown_columns(there, columns)):
            ours = next(key for key in needed if pair[0] in (*NAMES[key], columns.get(key, "").lower()))
            typed = format_setting("data.columns", {**columns, ours: pair[1]})
            remedy = f"Did you mean {pair[1]}? Rename it, or type {typed}"
            raise DataError(f"no column `{pair[0]}`", where=place, remedy=remedy)


def unknown_columns(names: Iterable[str], columns: Mapping[str, str]) -> list[str]:
    """Return the columns that nobody reads."""
    known = {*(name for also in NAMES.values() for name in also), *map(str.lower, columns.values())}
    return [name for name in names if name.strip().lower() not in known]


def _near(wanted: Iterable[str], columns: Collection[str]) -> tuple[str, str] | None:
    """Return the first wanted name that a column is spelled nearly like, and that column."""
    pairs = ((name, get_close_matches(name, columns, n=1, cutoff=ALIKE)) for name in wanted)
    return next(((name, near[0]) for name, near in pairs if near), None)


def note_names(rows: Iterable[Mapping[str, Any]], names: dict[str, None]) -> Iterator[Mapping[str, Any]]:
    """Yield rows, and note the names of their columns."""
    for row in rows:
        names |= dict.fromkeys(map(str, row))
        yield row


def read_rows(path: Path, place: str, problems: list[Problem]) -> tuple[bool, Iterator[Mapping[str, Any]]]:
    """Read the rows of a file; say whether their values are texts alone, as those of a table are.

    Raises:
        DataError: it is of no type that is read, or damaged.
    """
    suffix = Path(place.removesuffix(".gz")).suffix.lower()
    if suffix in (*JSON_LINES, *JSON):
        return False, _read_json(path, place, suffix in JSON_LINES, problems)
    if path.suffix.lower() not in SUFFIXES:
        raise DataError("unknown type of question file", where=str(path), remedy="Use .jsonl, .json, .csv or .xlsx")
    table = open_table(path)
    return True, (dict(zip(table.header, row, strict=True)) for row in table)


def _read_json(path: Path, place: str, lines: bool, problems: list[Problem]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file of JSON, or of its lines; what is none is noted."""
    text = decode(place, read_file(path), problems) or ""
    texts = enumerate(text.split("\n"), 1) if lines else [(1, text)]
    for number, part in texts:
        if not part.strip():
            continue
        try:
            value = json.loads(part)
        except (ValueError, RecursionError) as error:
            problems.append(Problem(place, f"line {number}", f"is not readable JSON ({error})"))
            continue
        if isinstance(value, dict) and not lines:
            value = value.get("data", [value])
        for entry in value if isinstance(value, list) and not lines else [value]:
            if isinstance(entry, dict):
                yield entry
            else:
                problems.append(Problem(place, f"line {number}", "is not an object with a question"))
