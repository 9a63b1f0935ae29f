"""A file of answers that any system gave: JSON lines, a JSON list, or an object of answers by id."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mate_cli.data.check import Problem, parse_json, raise_problems
from mate_cli.errors import DataError
from mate_cli.files.io_errors import wrap_read_errors
from mate_cli.files.safe_load import read_bytes
from mate_cli.tables.example import AGGREGATIONS, SystemAnswer
from mate_cli.tables.formats.cell_text import spreadsheet_text, valid

IDS = ("id", "question_id", "_id", "qid")
TEXTS = ("pred", "prediction", "answer", "answers", "label", "query", "sql", "option")
"""The first counts: where predictions stand beside `answer`, that is the right one."""
CELLS = ("cells", "coordinates")
LARGEST = 1 << 30
"""Bytes of a file."""
LINES = (".jsonl", ".ndjson")
REMEDY = 'Give JSON lines such as {"id": ..., "answer": ...}; see docs/how-to/compare_with_any_system.md'


def read_answers(file: Path) -> dict[str, SystemAnswer]:
    """Read answers by the id of their question.

    Raises:
        DataError: the file is missing or damaged, an entry has no id or no answer, or an id occurs twice.
    """
    with wrap_read_errors(file, DataError, "cannot be read", REMEDY):
        content = read_bytes(file, largest=LARGEST, links=True).removeprefix(b"\xef\xbb\xbf")
    places: dict[str, str] = {}
    answers: dict[str, SystemAnswer] = {}
    for place, entry in _entries(file, content):
        name = _find(entry, IDS, place, file)
        if not isinstance(name, (str, int)) or isinstance(name, bool) or name == "":
            raise DataError(f"{place}: the id is no text", where=str(file), remedy=REMEDY)
        if (key := str(name)) in answers:
            problem = f"the id {key!r} occurs twice ({places[key]} and {place})"
            raise DataError(problem, where=str(file), remedy="Keep one answer for each question")
        try:
            answers[key], places[key] = _answer(entry), place
        except (ValueError, TypeError) as error:
            raise DataError(f"{place}: {error}", where=str(file), remedy=REMEDY) from error
    if not answers:
        raise DataError("has no answers", where=str(file), remedy=REMEDY)
    return answers


def _entries(file: Path, content: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the place and the content of each entry."""
    problems: list[Problem] = []
    if file.suffix.lower() in LINES or _is_lines(content):
        lines = [(f"line {number}", line) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
        entries = [(place, parse_json(str(file), line, problems, place)) for place, line in lines]
    else:
        whole = parse_json(str(file), content, problems)
        if isinstance(whole, dict) and not {*IDS} & whole.keys():
            named = ((key, value if isinstance(value, dict) else {"answer": value}) for key, value in whole.items())
            entries = [(f"entry {key!r}", {**value, "id": key}) for key, value in named]
        else:
            whole = whole if isinstance(whole, list) else [whole]
            entries = [(f"entry {number}", entry) for number, entry in enumerate(whole, 1)]
    raise_problems(problems, REMEDY)
    for place, entry in entries:
        if not isinstance(entry, dict):
            raise DataError(f"{place} is not an object with an id and an answer", where=str(file), remedy=REMEDY)
        yield place, entry


def _is_lines(content: bytes) -> bool:
    first, _, more = content.strip().partition(b"\n")
    try:
        return bool(more) and isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def _find(entry: Mapping[str, Any], names: tuple[str, ...], place: str, file: Path) -> object:
    name = next((name for name in names if name in entry), None)
    if name is None:
        raise DataError(f"{place} has none of {', '.join(names)}", where=str(file), remedy=REMEDY)
    return entry[name]


def _answer(entry: Mapping[str, Any]) -> SystemAnswer:
    """Build the answer of an entry.

    Raises:
        ValueError, TypeError: saying what is wrong with it.
    """
    if not {*TEXTS, *CELLS} & entry.keys():
        raise ValueError(f"has none of {', '.join((*TEXTS, *CELLS))}")
    value = next((entry[name] for name in TEXTS if entry.get(name) is not None), None)
    values = value if isinstance(value, list) else [value]
    if any(isinstance(item, (dict, list)) for item in values):
        raise TypeError("the answer is neither a text nor a number, nor a list of these")
    aggregation = str(entry.get("aggregation") or "none").lower()
    if aggregation not in AGGREGATIONS:
        raise ValueError(f"unknown aggregation {aggregation!r}; choose from {', '.join(AGGREGATIONS)}")
    return SystemAnswer(
        tuple(valid(text) for item in values if (text := spreadsheet_text(item))),
        tuple((row, column) for row, column in _pairs(entry, CELLS, int)),
        aggregation,
        tuple(_pairs(entry, ("supporting",), (str, int))),
        _number(entry, "confidence", 1.0),
        _number(entry, "cost", sys.float_info.max),
    )


def _pairs(entry: Mapping[str, Any], names: tuple[str, ...], first: Any) -> list[tuple[Any, int]]:  # noqa: ANN401
    name = next((name for name in names if entry.get(name) is not None), "")
    pairs = entry[name] if name else []
    for pair in pairs if isinstance(pairs, list) else [pairs]:
        if not (isinstance(pair, list) and len(pair) > 1 and isinstance(pair[0], first) and type(pair[1]) is int):
            raise TypeError(f"{name} is not a list such as [[0, 1]]")
    return [(pair[0], pair[1]) for pair in pairs]


def _number(entry: Mapping[str, Any], name: str, most: float) -> float | None:
    value = entry.get(name)
    if value is not None and (type(value) not in (int, float) or not 0 <= value <= most):
        raise ValueError(f"{name} is not a number from 0" + (" to 1" if most == 1 else ""))
    return None if value is None else float(value)
