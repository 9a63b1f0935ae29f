"""Reader of files with the predicted answers of any question answering system.

The formats are JSON lines, a JSON list of objects, and a JSON object of answers by question id.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mate_cli.data.check import Problem, parse_json, raise_problems
from mate_cli.errors import DataError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.files.safe_load import read_bytes
from mate_cli.tables.example import AGGREGATIONS, SCALES, SystemAnswer
from mate_cli.tables.formats.cell_text import spreadsheet_text, valid

IDS = ("id", "question_id", "_id", "qid")
TEXTS = ("pred", "prediction", "answer", "answers", "label", "query", "sql", "option")
"""Keys of the predicted answer, in order of precedence. In files with predictions, `answer` is the gold answer."""
CELLS = ("cells", "coordinates")
LARGEST = 1 << 30
"""Maximum size of a file in bytes."""
LINES = (".jsonl", ".ndjson")
REMEDY = 'Give JSON lines such as {"id": ..., "answer": ...}; see docs/how-to/compare_with_any_system.md'


def read_answers(file: Path) -> dict[str, SystemAnswer]:
    """Return the predicted answers (`SystemAnswer`) that a file contains, by question id.

    Raises:
        DataError: the file is missing or damaged, an entry has no id or no answer, or an id is a duplicate.
    """
    with wrap_file_errors(file, DataError, "cannot be read", REMEDY):
        content = read_bytes(file, largest=LARGEST, links=True).removeprefix(b"\xef\xbb\xbf")
    locations: dict[str, str] = {}
    answers: dict[str, SystemAnswer] = {}
    for location, entry in _entries(file, content):
        name = _find(entry, IDS, location, file)
        if not isinstance(name, (str, int)) or isinstance(name, bool) or name == "":
            raise DataError(f"{location}: the id is not text", where=str(file), remedy=REMEDY)
        if (key := str(name)) in answers:
            problem = f"the id {key!r} occurs twice ({locations[key]} and {location})"
            raise DataError(problem, where=str(file), remedy="Keep one answer for each question")
        with wrap_file_errors(file, DataError, location, REMEDY):
            answers[key], locations[key] = parse_answer(entry), location
    if not answers:
        raise DataError("has no answers", where=str(file), remedy=REMEDY)
    return answers


def _entries(file: Path, content: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (location, entry) of each answer in an answers file, such as ("line 3", {...})."""
    problems: list[Problem] = []
    if file.suffix.lower() in LINES or _is_lines(content):
        lines = [(f"line {number}", line) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
        entries = [(location, parse_json(str(file), line, problems, location)) for location, line in lines]
    else:
        content_value = parse_json(str(file), content, problems)
        if isinstance(content_value, dict) and not {*IDS} & content_value.keys():
            keyed_answers = (
                (key, value if isinstance(value, dict) else _read_value(value)) for key, value in content_value.items()
            )
            entries = [(f"entry {key!r}", {**value, "id": key}) for key, value in keyed_answers]
        else:
            content_value = content_value if isinstance(content_value, list) else [content_value]
            entries = [(f"entry {number}", entry) for number, entry in enumerate(content_value, 1)]
    raise_problems(problems, REMEDY)
    for location, entry in entries:
        if not isinstance(entry, dict):
            raise DataError(f"{location} is not an object with an id and an answer", where=str(file), remedy=REMEDY)
        yield location, entry


def _read_value(value: object) -> dict[str, object]:
    """Convert an answer without id, such as TAT-QA's [answer, scale], to a dict of fields.

    In TAT-QA's form, the answer 0 means no answer.
    """
    match value:
        case [answer, str(scale)] if scale in SCALES:
            return {"answer": answer or None, "scale": scale}
    return {"answer": value}


def _is_lines(content: bytes) -> bool:
    first, _, more = content.strip().partition(b"\n")
    with suppress(ValueError, RecursionError):
        return bool(more) and isinstance(json.loads(first), dict)
    return False


def _find(entry: Mapping[str, Any], names: tuple[str, ...], location: str, file: Path) -> object:
    name = next((name for name in names if name in entry), None)
    if name is None:
        raise DataError(f"{location} has none of {', '.join(names)}", where=str(file), remedy=REMEDY)
    return entry[name]


def parse_answer(entry: Mapping[str, Any]) -> SystemAnswer:
    """Convert an entry of an answers file to a `SystemAnswer`.

    Raises:
        ValueError: the entry has no answer, an unknown aggregation or an invalid number.
        TypeError: a value has an invalid type.
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
        str(entry.get("scale") or ""),
    )


def _pairs(entry: Mapping[str, Any], names: tuple[str, ...], first: Any) -> list[tuple[Any, int]]:  # noqa: ANN401
    name = next((name for name in names if entry.get(name) is not None), "")
    pairs = entry[name] if name else []
    for pair in pairs if isinstance(pairs, list) else [pairs]:
        if not (isinstance(pair, list) and len(pair) > 1 and isinstance(pair[0], first) and type(pair[1]) is int):
            raise TypeError(f"{name} is not a list such as [[0, 1]]")
    return [(pair[0], pair[1]) for pair in pairs]


def _number(entry: Mapping[str, Any], name: str, limit: float) -> float | None:
    value = entry.get(name)
    if value is not None and (type(value) not in (int, float) or not 0 <= value <= limit):
        raise ValueError(f"{name} is not a number from 0" + (" to 1" if limit == 1 else ""))
    return None if value is None else float(value)
