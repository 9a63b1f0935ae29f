"""Reads every split of a dataset to its end and says what is wrong with it, how much there is, and how large."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Protocol

from mate_cli.data.check import CheckReport, Problem, Sizes
from mate_cli.errors import DataError
from mate_cli.sql.example import SchemaExample
from mate_cli.tables.example import ChoiceExample, TableExample
from mate_cli.tables.table import Table

ALL = "all"
"""The row of counts over all splits."""


class CheckedDataset(Protocol):
    """What a check asks of a dataset; see `Release`."""

    @property
    def splits(self) -> Sequence[str]:
        """The splits that are there."""

    @property
    def split_files(self) -> Mapping[str, str]:
        """The file that each split is named by."""

    @property
    def published(self) -> Mapping[str, int]:
        """How much the whole release has, by its authors."""

    @property
    def notes(self) -> Sequence[Problem]:
        """What is worth knowing, but no damage; complete when all splits are loaded."""

    @property
    def suspicions(self) -> Sequence[Problem]:
        """What looks like damage and can be read all the same; complete when all splits are loaded."""

    def load(self, split: str) -> tuple[list[TableExample], list[Problem]]:
        """The sound examples of a split, and what is wrong with the others."""

    def left_out(self, example: TableExample) -> str:
        """Why a sound example is not used; "" where it is."""


def check_release(dataset: CheckedDataset) -> CheckReport:
    """Check every split of a dataset.

    Noted as problems: whatever the reader notes or suspects, files that cannot be read at all, ids that are blank or
    occur twice, splits without questions, and tables without rows that nothing is said of.
    Tables that serve two splits are only mentioned.

    Raises:
        DataError: the data are not there at all.
    """
    problems: list[Problem] = []
    splits = {split: load_split(dataset, split, problems) for split in dataset.splits}
    problems += dict.fromkeys(
        (*repeated_ids(dataset, splits), *_lacking(dataset, splits, problems), *dataset.suspicions)
    )
    counts = {split: count_examples(examples, dataset.left_out) for split, examples in splits.items()}
    if len(splits) > 1:
        counts[ALL] = count_examples(
            [example for examples in splits.values() for example in examples], dataset.left_out
        )
    table_ids = {split: {example.table.table_id for example in examples} for split, examples in splits.items()}
    notes = [*overlaps(table_ids, "tables", dataset.split_files), *dataset.notes]
    return CheckReport(tuple(problems), counts, sizes(splits).percentiles(), tuple(notes), dataset.published)


def load_split(dataset: CheckedDataset, split: str, problems: list[Problem]) -> list[TableExample]:
    """The sound examples of a split; what is wrong with the others is appended to `problems`."""
    try:
        examples, found = dataset.load(split)
    except DataError as error:
        problems.append(Problem(error.where or dataset.split_files[split], "", error.problem))
        return []
    known = set(problems)  # a table that two splits share has the same problem in both
    problems += [problem for problem in found if problem not in known]
    return examples


def _lacking(
    dataset: CheckedDataset, splits: Mapping[str, Sequence[TableExample]], known: Sequence[Problem]
) -> Iterator[Problem]:
    """Splits, ids and tables with nothing in them; a split is named where no known problem may be the reason."""
    for split, examples in splits.items():
        file = dataset.split_files[split]
        if not examples and not known:
            yield Problem(file, "", "there is no sound question in it")
        for example in examples:
            if not example.example_id.strip(" -_"):
                yield Problem(file, example.question[:40], "the question has no id")
            if not example.table.rows and not dataset.left_out(example):
                yield Problem(file, example.table.table_id, "the table has no rows")
            if not any(cell.text.strip() for cell in example.table.header):
                yield Problem(file, example.table.table_id, "the table has no names of columns")


def repeated_ids(dataset: CheckedDataset, splits: Mapping[str, Sequence[TableExample]]) -> Iterator[Problem]:
    """Ids that occur twice, in one split or in two."""
    ids = {split: Counter(example.example_id for example in examples) for split, examples in splits.items()}
    for split, seen in ids.items():
        for key in (key for key, times in seen.items() if times > 1):
            yield Problem(dataset.split_files[split], key, "the question id occurs twice")
    yield from overlaps(ids, "question ids", dataset.split_files)


def overlaps(keys: Mapping[str, Collection[str]], what: str, files: Mapping[str, str]) -> Iterator[Problem]:
    """What ids (of `what`) each pair of splits has in common, with the first one of them as the key."""
    for first, second in combinations(keys, 2):
        common = sorted(set(keys[first]) & set(keys[second]))
        if common:
            yield Problem(files[second], common[0], f"{len(common):,} {what} are in {first} too")


def count_examples(examples: Sequence[TableExample], left_out: Callable[[TableExample], str]) -> dict[str, int]:
    """Count questions, tables, sequences of questions, kinds of answers, and the parts that are scored apart.

    What `left_out` says of an example counts in place of its kind of answer.
    """
    reasons = [left_out(example) for example in examples]
    kinds = Counter(f"{LEFT_OUT}{why}" if why else outcome(e) for e, why in zip(examples, reasons, strict=True))
    parts = Counter(part for example in examples for part in example.subsets)
    sequences = len({example.conversation for example in examples if example.conversation})
    return {
        "questions": len(examples),
        "tables": len({example.table.table_id for example in examples}),
        **({"sequences": sequences} if sequences else {}),
        "usable": sum(kinds[kind] for kind in KINDS),
        **{kind: kinds[kind] for kind in sorted(kinds, key=_rank)},
        **{part: parts[part] for part in sorted(parts)},
    }


KINDS = ("entailed", "refuted", "option", "query", "cells", "number", "cells or number")
"""What can be learnt from an answer; the last one is for a model to decide (weak supervision)."""
UNUSABLE, LEFT_OUT = "unusable: ", "left out: "
"""What stands before the reason why nothing is learnt from a question, or why it is not used at all."""


def outcome(example: TableExample) -> str:
    """What is known of an example's answer: one of `KINDS`, "not given", or `UNUSABLE` and why."""
    answer = example.answer
    if answer is None:
        return "not given"
    if isinstance(example, SchemaExample):
        reason = "outside the grammar" if example.query else "its query cannot be read"
        return "query" if example.actions else f"{UNUSABLE}{reason}"
    if answer.label is not None and isinstance(example, ChoiceExample):
        return "option"
    if answer.label is not None:
        return "entailed" if answer.label else "refuted"
    number = answer.number is not None and not math.isnan(answer.number)
    known = [name for name, there in (("cells", answer.coordinates), ("number", number)) if there]
    return " or ".join(known) or f"{UNUSABLE}{answer.source or 'neither cells nor number'}"


def _rank(kind: str) -> tuple[int, str]:
    return (KINDS.index(kind) if kind in KINDS else len(KINDS), kind)


def sizes(splits: Mapping[str, Sequence[TableExample]]) -> Sizes:
    """How large questions, answers, sequences and tables are, each table counted once."""
    found = Sizes()
    tables: dict[str, Table] = {}
    for examples in splits.values():
        for example in examples:
            tables.setdefault(example.table.table_id, example.table)
            found.add("words in a question", len(example.question.split()))
            if isinstance(example, ChoiceExample):
                found.add("options", len(example.options))
                found.add(
                    "words in an option", sum(len(text.split()) for text in example.options) // len(example.options)
                )
            elif example.answer and example.answer.coordinates:
                found.add("cells in an answer", len(example.answer.coordinates))
        for length in Counter(example.conversation for example in examples if example.conversation).values():
            found.add("questions in a sequence", length)
    for table in tables.values():
        found.add_table(table)
    return found
