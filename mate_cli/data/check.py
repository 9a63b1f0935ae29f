"""Outcome of a check of a dataset: problems by file and key, counts, and the spread of sizes."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, field
from operator import gt, ne
from pathlib import PurePosixPath
from statistics import fmean
from typing import Any, TypeVar

from mate_cli.errors import DataError
from mate_cli.tables.table import Table
from mate_cli.tables.text import split_sentences

Kind = TypeVar("Kind")

LEVELS = (50, 90, 99, 100)
"""The percentiles that a report shows; 100 is the largest value."""
MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: in which file, at which key (a question, a table, a link), and what."""

    file: str
    key: str
    what: str

    def __str__(self) -> str:
        path = PurePosixPath(self.file)
        named = self.key and self.key not in (self.file, path.name, path.stem)
        return f"{self.file}: {self.key}: {self.what}" if named else f"{self.file}: {self.what}"


@dataclass(frozen=True)
class CheckReport:
    """The outcome of a check.

    Args:
        problems: everything that is wrong, in the order in which it was met.
        counts: per split: questions, tables, and questions by the source or kind of their answer.
        percentiles: per measure (rows, columns, ...): its values at `LEVELS`, and its mean under `MEAN`.
        notes: what is worth knowing, but no damage.
        published: how much of each counted thing the whole release has, by its authors.
        papers: what papers say of it, see `DatasetInfo`.
        shares: per split, what part of its inputs is so, by what it is; empty where nobody looked.
    """

    problems: Sequence[Problem]
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    percentiles: Mapping[str, Mapping[int | str, float]] = field(default_factory=dict)
    notes: Sequence[Problem] = ()
    published: Mapping[str, int] = field(default_factory=dict)
    papers: Sequence[Mapping[str, Any]] = ()
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return {
            "problems": [asdict(problem) for problem in self.problems],
            "notes": [asdict(note) for note in self.notes],
            "counts": {split: dict(counts) for split, counts in self.counts.items()},
            "published": dict(self.published),
            "papers": list(self.papers),
            "shares": {split: dict(shares) for split, shares in self.shares.items()},
            "percentiles": {name: {str(k): v for k, v in values.items()} for name, values in self.percentiles.items()},
        }


def raise_problems(problems: Sequence[Problem], remedy: str) -> None:
    """Refuse to go on with damaged data.

    Raises:
        DataError: there is at least one problem; the message holds the first one and the number of the others.
    """
    if not problems:
        return
    first, more = problems[0], len(problems) - 1
    what = f"{first.key}: {first.what}" if first.key else first.what
    raise DataError(f"{what} (and {more} more problems)" if more else what, where=first.file, remedy=remedy)


def parse_json(file: str, content: bytes, problems: list[Problem], key: str = "") -> Any:  # noqa: ANN401
    """Decode JSON, or note a problem and return None; a `key` that names a line stands for the lines of `content`."""
    twice: list[str] = []

    def collected(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entry = dict(pairs)
        if len(entry) < len(pairs):
            twice.extend(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        return entry

    try:
        value = json.loads(content, object_pairs_hook=collected)
        problems += [Problem(file, key, f"the key {name!r} occurs twice in an object") for name in twice[:1]]
        return value
    except UnicodeDecodeError as error:
        problems.append(not_utf8(file, content, error, key))
    except json.JSONDecodeError as error:
        place = f"{_place(key, error.lineno, ', ')}column {error.colno}"
        what = f"{place}: {error.msg}" if content.strip() else "it is empty"
        problems.append(Problem(file, key, f"is not readable JSON ({what})"))
    except (ValueError, RecursionError) as error:
        problems.append(Problem(file, key, f"is not readable JSON ({error})"))
    return None


def not_utf8(file: str, content: bytes, error: UnicodeDecodeError, key: str = "") -> Problem:
    """Return the problem of a file, or of a line of it, that is in another encoding."""
    place = _place(key, content[: error.start].count(b"\n") + 1, ": ")
    return Problem(file, key, f"is not UTF-8 ({place}{error.reason})")


def _place(key: str, line: int, end: str) -> str:
    return "" if key.startswith("line ") else f"line {line}{end}"


def parse_json_as(
    kind: type[Kind], what: str, file: str, content: bytes, problems: list[Problem], key: str = ""
) -> Kind | None:
    """Decode JSON of one kind, `what` it holds for people, or note a problem at `key` and return None."""
    known = len(problems)
    value = parse_json(file, content, problems, key)
    if isinstance(value, kind):
        return value
    if len(problems) == known:
        problems.append(Problem(file, key, f"should hold {what}"))
    return None


def is_ragged(
    file: str, key: str, header: Sized, rows: Sequence[Sized], problems: list[Problem], *, longer: bool = False
) -> bool:
    """Tell whether rows of a table have not as many cells as its header, or just more; note the first such row."""
    differs = gt if longer else ne
    ragged = [place for place, row in enumerate(rows) if differs(len(row), len(header))]
    if ragged:
        what = f"row {ragged[0]} has {len(rows[ragged[0]])} cells under {len(header)} headers"
        problems.append(Problem(file, key, f"{what} ({len(ragged)} such rows)" if len(ragged) > 1 else what))
    return bool(ragged)


def note_absent_tables(file: str, waiting: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Note tables that are nowhere; `waiting` has, by what is wrong, the ids of the questions of a file about one."""
    for what, keys in waiting.items():
        more = f" (nor is that of {len(keys) - 1} more)" if len(keys) > 1 else ""
        yield Problem(file, keys[0], f"its table {what}{more}")


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Write counts by what they are of, in words."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def percentiles(values: Iterable[int]) -> dict[int | str, float]:
    """Return the values at `LEVELS` by the nearest-rank rule, and the mean; empty without values."""
    ordered = sorted(values)
    if not ordered:
        return {}
    at_level: dict[int | str, float] = {MEAN: round(fmean(ordered), 1)}
    return at_level | {level: ordered[max(0, math.ceil(level / 100 * len(ordered)) - 1)] for level in LEVELS}


class Sizes:
    """Collects how large the tables, passages and questions are."""

    def __init__(self) -> None:
        self._values: dict[str, list[int]] = {}

    def add(self, measure: str, value: int) -> None:
        """Note one value."""
        self._values.setdefault(measure, []).append(value)

    def add_table(self, table: Table) -> None:
        """Note the rows, columns, cells and words of one table, and its links and passages where it has any."""
        texts = [cell.text for cell in table.header] + [cell.text for _, _, cell in table.cells()]
        self.add("rows", len(table.rows))
        self.add("columns", len(table.header))
        self.add("cells", len(table.rows) * len(table.header))
        self.add("words in a table", sum(len(text.split()) for text in texts))
        if table.passages:
            self.add("links", sum(len(cell.links) for _, _, cell in table.cells()))
        for passage in table.passages.values():
            self.add("words in a passage", len(passage.split()))
            self.add("sentences in a passage", len(split_sentences(passage)))

    def percentiles(self) -> dict[str, dict[int | str, float]]:
        """Return every measure's values at `LEVELS`, and its mean."""
        return {measure: percentiles(values) for measure, values in self._values.items()}
