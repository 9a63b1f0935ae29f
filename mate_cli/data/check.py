"""Checks of a dataset: problems of its files, counts, and the distribution of sizes."""

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
"""Percentiles in a report. 100 is the largest value."""
MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem found in a dataset: its file, its question or location, and a description.

    Args:
        file: file with the problem.
        key: id of the question, table or link, or the location in the file. Empty for the whole file.
        what: description of the problem.
    """

    file: str
    key: str
    what: str

    def __str__(self) -> str:
        path = PurePosixPath(self.file)
        needs_key = self.key and self.key not in (self.file, path.name, path.stem)
        return f"{self.file}: {self.key}: {self.what}" if needs_key else f"{self.file}: {self.what}"


@dataclass(frozen=True)
class CheckReport:
    """Result of checking a dataset: problems, counts, statistics of sizes, and notes.

    Args:
        problems: all problems, in the order of discovery.
        counts: for each split, the number of questions, tables, and questions by source or type of their answer.
        percentiles: for each measure (rows, columns, ...), its values at `LEVELS`, and its mean under `MEAN`.
        notes: observations that are not problems.
        published: counts of the whole release, as published by its authors.
        papers: statistics of the release in papers, see `DatasetInfo`.
        shares: for each split, the share of inputs with a property, by property. Empty if not computed.
    """

    problems: Sequence[Problem]
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    percentiles: Mapping[str, Mapping[int | str, float]] = field(default_factory=dict)
    notes: Sequence[Problem] = ()
    published: Mapping[str, int] = field(default_factory=dict)
    papers: Sequence[Mapping[str, Any]] = ()
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def raise_problems(problems: Sequence[Problem], remedy: str) -> None:
    """Raise a `DataError` with the first of some problems, unless `problems` is empty.

    Raises:
        DataError: there is at least one problem. The message has the first problem and the number of further problems.
    """
    if not problems:
        return
    first, more = problems[0], len(problems) - 1
    message = f"{first.key}: {first.what}" if first.key else first.what
    raise DataError(f"{message} (and {more} more problems)" if more else message, where=first.file, remedy=remedy)


def parse_json(file: str, content: bytes, problems: list[Problem], key: str = "") -> Any:  # noqa: ANN401
    """Decode JSON, or append a problem to `problems` and return None if it is invalid.

    A duplicate key in an object is a problem too, but its last value is returned.

    Args:
        file: name of the file.
        content: JSON to decode.
        problems: list that receives the problem.
        key: key of the problem. "line N" means that `content` is this line of the file.
    """
    duplicates: list[str] = []

    def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entry = dict(pairs)
        if len(entry) < len(pairs):
            duplicates.extend(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        return entry

    try:
        value = json.loads(content, object_pairs_hook=build_object)
        problems += [Problem(file, key, f"the key {name!r} occurs twice in an object") for name in duplicates[:1]]
        return value
    except UnicodeDecodeError as error:
        problems.append(not_utf8(file, content, error, key))
    except json.JSONDecodeError as error:
        location = f"{_place(key, error.lineno, ', ')}column {error.colno}"
        details = f"{location}: {error.msg}" if content.strip() else "it is empty"
        problems.append(Problem(file, key, f"is not readable JSON ({details})"))
    except (ValueError, RecursionError) as error:
        problems.append(Problem(file, key, f"is not readable JSON ({error})"))
    return None


def not_utf8(file: str, content: bytes, error: UnicodeDecodeError, key: str = "") -> Problem:
    """Return the `Problem` that describes a file or line that is not UTF-8.

    Args:
        file: name of the file.
        content: content of the file or line.
        error: error of decoding the content.
        key: key of the problem. "line N" means that `content` is this line of the file.
    """
    location = _place(key, content[: error.start].count(b"\n") + 1, ": ")
    return Problem(file, key, f"is not UTF-8 ({location}{error.reason})")


def _place(key: str, line: int, end: str) -> str:
    return "" if key.startswith("line ") else f"line {line}{end}"


def parse_json_as(
    kind: type[Kind], what: str, file: str, content: bytes, problems: list[Problem], key: str = ""
) -> Kind | None:
    """Decode JSON of a given type, or append a problem to `problems` and return None.

    Args:
        kind: required type of the value.
        what: description of the required value, for the message.
        file: name of the file.
        content: JSON to decode.
        problems: list that receives the problem.
        key: key of the problem.
    """
    problem_count = len(problems)
    value = parse_json(file, content, problems, key)
    if isinstance(value, kind):
        return value
    if len(problems) == problem_count:
        problems.append(Problem(file, key, f"should contain {what}"))
    return None


def is_ragged(
    file: str, key: str, header: Sized, rows: Sequence[Sized], problems: list[Problem], *, longer: bool = False
) -> bool:
    """Return whether rows of a table have more or fewer cells than its header.

    The first such row is appended to `problems`.

    Args:
        file: name of the file.
        key: key of the problem.
        header: header of the table.
        rows: body rows of the table.
        problems: list that receives the problem.
        longer: whether to accept rows that are shorter than the header.
    """
    differs = gt if longer else ne
    ragged = [index for index, row in enumerate(rows) if differs(len(row), len(header))]
    if ragged:
        message = f"row {ragged[0]} has {len(rows[ragged[0]])} cells under {len(header)} headers"
        problems.append(Problem(file, key, f"{message} ({len(ragged)} such rows)" if len(ragged) > 1 else message))
    return bool(ragged)


def note_absent_tables(file: str, waiting: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Yield one `Problem` for each cause of missing tables, with the number of questions.

    Args:
        file: question file.
        waiting: ids of the questions about a missing table, by the description of its problem.
    """
    for description, keys in waiting.items():
        more = f" (nor is that of {len(keys) - 1} more)" if len(keys) > 1 else ""
        yield Problem(file, keys[0], f"its table {description}{more}")


def format_counts(counts: Mapping[str, int]) -> str:
    """Format counts with their names as text, such as "1 table, 3 questions"."""
    single = {name: re.sub("ies$", "y", name).removesuffix("s") for name in counts}
    return ", ".join(f"{count:,} {single[name] if count == 1 else name}" for name, count in counts.items())


def percentiles(values: Iterable[int]) -> dict[int | str, float]:
    """Compute the percentiles `LEVELS` of values by the nearest-rank method, and their mean.

    The result is {} without values.
    """
    sorted_values = sorted(values)
    if not sorted_values:
        return {}
    at_level: dict[int | str, float] = {MEAN: round(fmean(sorted_values), 1)}
    return at_level | {
        level: sorted_values[max(0, math.ceil(level / 100 * len(sorted_values)) - 1)] for level in LEVELS
    }


class Sizes:
    """Collector of sizes, such as rows per table, from which percentiles are computed."""

    def __init__(self) -> None:
        self._values: dict[str, list[int]] = {}

    def add(self, measure: str, value: int) -> None:
        """Store a value of a measure, such as the number of rows ("rows") of one table."""
        self._values.setdefault(measure, []).append(value)

    def add_table(self, table: Table) -> None:
        """Store the sizes of a table: its numbers of rows, columns, cells and words.

        If the table has passages, the number of links and the length of each passage are added too.
        """
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
        """Return the mean and the percentiles `LEVELS` of each measure: {measure: {level: value}}."""
        return {measure: percentiles(values) for measure, values in self._values.items()}


ALL = "all"
"""Name of the counts over all splits."""
NO_QUESTION = "it has no valid question"

Splits = Mapping[str, Sequence[TableExample]]
Reason = Callable[[TableExample], str]
"""Returns the reason why an example is excluded, or "" if it is used."""


def find_empty_entries(
    splits: Splits, files: Mapping[str, str], left_out: Reason, known: Sequence[Problem], unit: str
) -> Iterator[Problem]:
    """Yield a `Problem` for each split without questions, empty question id and empty table.

    Problems in `known` that explain an empty entry are not reported again.

    Args:
        splits: examples of each split.
        files: question file of each split.
        left_out: function that returns why an example is excluded.
        known: problems that were reported before.
        unit: plural name of the documents, such as "tables".
    """
    reported_files = {problem.file for problem in known}
    for split, examples in splits.items():
        file = files[split]
        if not examples and not known:
            yield Problem(file, "", NO_QUESTION)
        for example in examples:
            if not example.example_id.strip(" -_"):
                yield Problem(file, example.question[:40], "the question has no id")
            table = example.table
            if table.table_id in reported_files:
                continue
            if not table.rows and not left_out(example):
                yield Problem(file, table.table_id, "the table has no rows")
                reported_files.add(table.table_id)
            if unit == "tables" and not any(cell.text.strip() for cell in table.header):
                yield Problem(file, table.table_id, "the table has no column names")
                reported_files.add(table.table_id)


def find_unanswered(splits: Splits, files: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each split in which some questions lack an answer.

    A split other than train may have no answers at all, as hidden test sets do.
    """
    for split, examples in splits.items():
        unanswered_ids = [example.example_id for example in examples if example.answer is None and example.table.rows]
        if unanswered_ids and (split == "train" or len(unanswered_ids) < len(examples)):
            more = (
                f", nor have {len(unanswered_ids) - 1:,} more of {len(examples):,}" if len(unanswered_ids) > 1 else ""
            )
            yield Problem(files[split], unanswered_ids[0], f"the question has no answer{more}")


def find_repeated_ids(splits: Splits, files: Mapping[str, str], origins: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each duplicate question id in a split or in a pair of splits.

    Args:
        splits: examples of each split.
        files: question file of each split.
        origins: file of a question by its id, for splits with several files.
    """
    ids = {split: Counter(example.example_id for example in examples) for split, examples in splits.items()}
    for split, counts in ids.items():
        for key in (key for key, times in counts.items() if times > 1):
            yield Problem(origins.get(key, files[split]), key, "the question id occurs twice")
    for problem in find_overlaps(ids, "question ids", files):
        yield Problem(origins.get(problem.key, problem.file), problem.key, problem.what)


def find_overlaps(keys: Mapping[str, Collection[str]], what: str, files: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a `Problem` for each pair of splits with common ids, such as question ids.

    Args:
        keys: ids of each split.
        what: plural name of the ids, for the message.
        files: question file of each split.
    """
    for first, second in combinations(keys, 2):
        common_ids = sorted(set(keys[first]) & set(keys[second]))
        if common_ids:
            count = f"1 {what.removesuffix('s')} is" if len(common_ids) == 1 else f"{len(common_ids):,} {what} are"
            yield Problem(files[second], common_ids[0], f"{count} in {first} too")


def count_splits(splits: Splits, left_out: Reason) -> dict[str, dict[str, int]]:
    """Count questions, tables and other facts for each split, and for all splits together.

    See `count_examples` for the facts.

    The counts of all splits are omitted if the dataset has a single split.

    Args:
        splits: examples of each split.
        left_out: function that returns why an example is excluded.
    """
    all_examples = {ALL: [example for examples in splits.values() for example in examples]} if len(splits) > 1 else {}
    return {split: count_examples(examples, left_out) for split, examples in {**splits, **all_examples}.items()}


def count_examples(examples: Sequence[TableExample], left_out: Reason) -> dict[str, int]:
    """Count the questions, tables, conversations, answer types and subsets of a split.

    An excluded example counts under its reason instead of the type of its answer.

    Args:
        examples: examples of a split.
        left_out: function that returns why an example is excluded.
    """
    reasons = [left_out(example) for example in examples]
    outcomes = Counter(
        f"{EXCLUDED}{reason}" if reason else e.outcome for e, reason in zip(examples, reasons, strict=True)
    )
    subsets = Counter(subset for example in examples for subset in example.subsets)
    sequences = len({example.conversation for example in examples if example.conversation})
    return {
        "questions": len(examples),
        "tables": len({example.table.table_id for example in examples}),
        **({"sequences": sequences} if sequences else {}),
        "usable": sum(count for outcome, count in outcomes.items() if _is_usable(outcome)),
        **{outcome: outcomes[outcome] for outcome in sorted(outcomes, key=_rank)},
        **{subset: subsets[subset] for subset in sorted(subsets)},
    }


KINDS = ("entailed", "refuted", "option", "query", "cells", "number", "cells or number", UNANSWERABLE)
"""Order of the types of training signals. "cells or number" is decided by the model (weak supervision)."""
EXCLUDED = "left out: "
"""Prefix of the reason why a question is excluded."""


def _is_usable(kind: str) -> bool:
    return kind != NOT_GIVEN and not kind.startswith((UNUSABLE, EXCLUDED))


def _rank(kind: str) -> tuple[bool, int, str]:
    return (not _is_usable(kind), KINDS.index(kind) if kind in KINDS else len(KINDS), kind)


def measure_sizes(splits: Splits) -> Sizes:
    """Collect the sizes of all questions, answers and conversations, and of each table."""
    sizes = Sizes()
    tables: dict[str, Table] = {}
    for examples in splits.values():
        for example in examples:
            tables.setdefault(example.table.table_id, example.table)
            for measure, size in example.sizes.items():
                sizes.add(measure, size)
        for length in Counter(example.conversation for example in examples if example.conversation).values():
            sizes.add("questions in a sequence", length)
    for table in tables.values():
        sizes.add_table(table)
    return sizes
