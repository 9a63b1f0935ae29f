"""Outcome of a check of a dataset: problems by file and key, counts, and the spread of sizes."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import combinations
from operator import gt, ne
from pathlib import PurePosixPath
from statistics import fmean
from typing import Any, TypeVar

from mate_cli.errors import DataError
from mate_cli.tables.example import NOT_GIVEN, UNANSWERABLE, UNUSABLE, TableExample
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
    single = {name: re.sub("ies$", "y", name).removesuffix("s") for name in counts}
    return ", ".join(f"{count:,} {single[name] if count == 1 else name}" for name, count in counts.items())


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


ALL = "all"
"""The row of counts over all splits."""
NO_QUESTION = "it has no valid question"

Splits = Mapping[str, Sequence[TableExample]]
Reason = Callable[[TableExample], str]
"""Why an example is not used; "" where it is."""


def find_gaps(
    splits: Splits, files: Mapping[str, str], left_out: Reason, known: Sequence[Problem], unit: str
) -> Iterator[Problem]:
    """Note splits, ids and tables with nothing in them; a split or table is named where no known problem is why."""
    told = {problem.file for problem in known}
    for split, examples in splits.items():
        file = files[split]
        if not examples and not known:
            yield Problem(file, "", NO_QUESTION)
        for example in examples:
            if not example.example_id.strip(" -_"):
                yield Problem(file, example.question[:40], "the question has no id")
            table = example.table
            if table.table_id in told:
                continue
            if not table.rows and not left_out(example):
                yield Problem(file, table.table_id, "the table has no rows")
                told.add(table.table_id)
            if unit == "tables" and not any(cell.text.strip() for cell in table.header):
                yield Problem(file, table.table_id, "the table has no column names")
                told.add(table.table_id)


def find_unanswered(splits: Splits, files: Mapping[str, str]) -> Iterator[Problem]:
    """Note splits to learn from with questions without an answer, and others where some have none."""
    for split, examples in splits.items():
        without = [example.example_id for example in examples if example.answer is None and example.table.rows]
        if without and (split == "train" or len(without) < len(examples)):
            more = f", nor have {len(without) - 1:,} more of {len(examples):,}" if len(without) > 1 else ""
            yield Problem(files[split], without[0], f"the question has no answer{more}")


def find_repeated_ids(splits: Splits, files: Mapping[str, str], origins: Mapping[str, str]) -> Iterator[Problem]:
    """Find ids that occur twice, in one split or in two; `origins` has the files of those that `files` lacks."""
    ids = {split: Counter(example.example_id for example in examples) for split, examples in splits.items()}
    for split, counts in ids.items():
        for key in (key for key, times in counts.items() if times > 1):
            yield Problem(origins.get(key, files[split]), key, "the question id occurs twice")
    for problem in find_overlaps(ids, "question ids", files):
        yield Problem(origins.get(problem.key, problem.file), problem.key, problem.what)


def find_overlaps(keys: Mapping[str, Collection[str]], what: str, files: Mapping[str, str]) -> Iterator[Problem]:
    """Note the ids (of `what`) that pairs of splits have in common, with the first one of them as the key."""
    for first, second in combinations(keys, 2):
        common = sorted(set(keys[first]) & set(keys[second]))
        if common:
            count = f"1 {what.removesuffix('s')} is" if len(common) == 1 else f"{len(common):,} {what} are"
            yield Problem(files[second], common[0], f"{count} in {first} too")


def count_splits(splits: Splits, left_out: Reason) -> dict[str, dict[str, int]]:
    """Run `count_examples` on every split, and on all where there are several."""
    every = {ALL: [example for examples in splits.values() for example in examples]} if len(splits) > 1 else {}
    return {split: count_examples(examples, left_out) for split, examples in {**splits, **every}.items()}


def count_examples(examples: Sequence[TableExample], left_out: Reason) -> dict[str, int]:
    """Count questions, tables, sequences of questions, kinds of answers, and the parts that are scored apart.

    What `left_out` says of an example counts in place of its kind of answer.
    """
    reasons = [left_out(example) for example in examples]
    kinds = Counter(f"{LEFT_OUT}{why}" if why else e.outcome for e, why in zip(examples, reasons, strict=True))
    parts = Counter(part for example in examples for part in example.subsets)
    sequences = len({example.conversation for example in examples if example.conversation})
    return {
        "questions": len(examples),
        "tables": len({example.table.table_id for example in examples}),
        **({"sequences": sequences} if sequences else {}),
        "usable": sum(count for kind, count in kinds.items() if _is_usable(kind)),
        **{kind: kinds[kind] for kind in sorted(kinds, key=_rank)},
        **{part: parts[part] for part in sorted(parts)},
    }


KINDS = ("entailed", "refuted", "option", "query", "cells", "number", "cells or number", UNANSWERABLE)
"""Order of what can be learned from an answer. A model decides on "cells or number" (weak supervision)."""
LEFT_OUT = "left out: "
"""What stands before the reason why a question is not used at all."""


def _is_usable(kind: str) -> bool:
    return kind != NOT_GIVEN and not kind.startswith((UNUSABLE, LEFT_OUT))


def _rank(kind: str) -> tuple[bool, int, str]:
    return (not _is_usable(kind), KINDS.index(kind) if kind in KINDS else len(KINDS), kind)


def measure_sizes(splits: Splits) -> Sizes:
    """Measure questions, answers, sequences and tables, each table counted once."""
    sizes = Sizes()
    tables: dict[str, Table] = {}
    for examples in splits.values():
        for example in examples:
            tables.setdefault(example.table.table_id, example.table)
            for what, size in example.sizes.items():
                sizes.add(what, size)
        for length in Counter(example.conversation for example in examples if example.conversation).values():
            sizes.add("questions in a sequence", length)
    for table in tables.values():
        sizes.add_table(table)
    return sizes
