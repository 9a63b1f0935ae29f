"""Problems of the splits of a dataset, its counts and sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations

from mate_cli.data.check import Problem, Sizes
from mate_cli.tables.example import NOT_GIVEN, UNUSABLE, TableExample
from mate_cli.tables.table import Table

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
            yield Problem(files[split], without[0], describe_unanswered(len(without), len(examples)))


def describe_unanswered(without: int, questions: int) -> str:
    """Return the problem of a question without an answer, one of some among the questions of a split."""
    more = f", nor have {without - 1:,} more of {questions:,}" if without > 1 else ""
    return f"the question has no answer{more}"


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
            yield Problem(files[second], common[0], f"{len(common):,} {what} are in {first} too")


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


KINDS = ("entailed", "refuted", "option", "query", "cells", "number", "cells or number")
"""Order of what can be learnt from an answer; the last one is for a model to decide (weak supervision)."""
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
