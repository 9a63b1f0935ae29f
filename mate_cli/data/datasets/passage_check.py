"""Reads every split of questions about passages to its end, and says what is wrong and how much there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mate_cli.data.check import CheckReport, Problem, Sizes
from mate_cli.data.datasets.release_check import (
    LEFT_OUT,
    CheckedDataset,
    load_split,
    overlaps,
    repeated_ids,
)
from mate_cli.tables.example import TableExample


class CheckedPassages(CheckedDataset, Protocol):
    """What a check asks of a dataset of passages; see `PassageQuestions`."""

    @property
    def repeated(self) -> Mapping[str, int]:
        """How many questions of the train split were left out, by the reason; known once it is loaded."""


def check_passages(dataset: CheckedPassages) -> CheckReport:
    """Check every split of a dataset.

    Noted as problems: whatever the reader notes, files that cannot be read, ids that occur twice, and splits without
    questions. What is left out of the train split is counted.

    Raises:
        DataError: the data are not there at all.
    """
    problems: list[Problem] = []
    splits = {split: load_split(dataset, split, problems) for split in dataset.splits}
    problems += repeated_ids(dataset, splits)
    problems += [
        Problem(dataset.split_files[split], "", "there is no sound question in it")
        for split, examples in splits.items()
        if not examples
    ]
    counts = {split: count_passages(examples) for split, examples in splits.items()}
    for why, count in dataset.repeated.items():
        counts["train"][f"{LEFT_OUT}{why}"] = count
    passages = {split: {example.table.table_id for example in examples} for split, examples in splits.items()}
    notes = (*overlaps(passages, "passages", dataset.split_files), *dataset.notes)
    return CheckReport(tuple(problems), counts, passage_sizes(splits), notes, dataset.published)


def count_passages(examples: Sequence[TableExample]) -> dict[str, int]:
    """Count questions, passages, and questions with an answer, without one, and of which nobody says."""
    known = [example.answer for example in examples if example.answer]
    answered = sum(bool(answer.texts) for answer in known)
    return {
        "questions": len(examples),
        "passages": len({id(example.table) for example in examples}),
        "answered": answered,
        "without an answer": len(known) - answered,
        "not given": len(examples) - len(known),
    }


def passage_sizes(splits: Mapping[str, Sequence[TableExample]]) -> dict[str, dict[int, int]]:
    """Words in questions, passages and answers; each passage counts once."""
    sizes = Sizes()
    tables = {id(example.table): example.table for examples in splits.values() for example in examples}
    for examples in splits.values():
        for example in examples:
            sizes.add("words in a question", len(example.question.split()))
            if example.answer and example.answer.texts:
                sizes.add("words in an answer", len(example.answer.texts[0].split()))
    for table in tables.values():
        sizes.add("words in a passage", len(table.rows[0][0].text.split()))
    return sizes.percentiles()
