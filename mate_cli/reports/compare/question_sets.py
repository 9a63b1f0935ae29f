"""The questions that scores are of: scores of different questions stand apart and are never ranked together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mate_cli.metrics.specs import SPLITS
from mate_cli.reports.compare.statistics import is_finite
from mate_cli.reports.format import plural
from mate_cli.reports.runs.load import LoadedRun, is_number
from mate_cli.runs.identity import digest


class QuestionCount(NamedTuple):
    """Questions: how many, and a hash of them, empty where no run recorded it."""

    total: int
    digest: str = ""


QuestionSet = Mapping[str, QuestionCount]
"""Questions by split, as `dev`, and by split and part, as `dev/table`."""


def read_question_set(run: LoadedRun) -> QuestionSet:
    """Return the questions that the scores of a run are of; of an older record, which has no hash, their number."""
    data = run.part("data")
    asked: dict[str, QuestionCount] = {}
    for split in SPLITS:
        counts = [data[split]] if split in data else [data[key] for key in data if key.endswith(f"/{split}")]
        totals = {int(count) for count in counts if is_number(count) and is_finite(count)}
        if len(totals) == 1:
            asked[split] = QuestionCount(totals.pop())
    for key, text in run.part("questions").items():
        count, _, digest = str(text).partition(":")
        if count.isdecimal():
            asked[key] = QuestionCount(int(count), digest)
    return asked


def agree(first: QuestionSet, second: QuestionSet) -> bool:
    """Say whether two sets may be the same: equal numbers, and equal hashes as far as they are known."""
    both = [(first[split], second[split]) for split in SPLITS if split in first and split in second]
    return all(a.total == b.total and (a.digest == b.digest or not (a.digest and b.digest)) for a, b in both)


def join_question_sets(sets: Sequence[QuestionSet]) -> list[QuestionSet]:
    """Return for each set the joint one of all that agree with it, the same object for all of these."""
    joint: list[dict[str, QuestionCount]] = []
    places: dict[int, QuestionSet] = {}
    for place in sorted(range(len(sets)), key=lambda place: -len(sets[place])):  # those that say most come first
        if (match := next((known for known in joint if agree(known, sets[place])), None)) is None:
            joint.append(match := {})
        match |= {key: asked for key, asked in sets[place].items() if asked.digest or key not in match}
        places[place] = match
    return [places[place] for place in range(len(sets))]


def pool_question_sets(sets: Iterable[QuestionSet]) -> QuestionSet:
    """Return the questions of several folds together; those that all of them were asked, such as test, count once."""
    pooled: dict[str, dict[QuestionCount, None]] = {}
    for questions in sets:
        for key, asked in questions.items():
            pooled.setdefault(key, {})[asked] = None
    return {
        key: next(iter(parts))
        if len(parts) == 1
        else QuestionCount(sum(count.total for count in parts), digest({count.digest: count.total for count in parts}))
        for key, parts in pooled.items()
    }


def name_question_sets(dataset: str, sets: Sequence[QuestionSet]) -> list[str]:
    """Name sets of a data set: by its name alone where all are the same object, else by their numbers too."""
    distinct = {id(questions): questions for questions in sets}
    names: dict[int, str] = {}
    for key, questions in distinct.items():
        name = ", ".join(filter(None, (dataset, count_questions(questions, SPLITS)))) if len(distinct) > 1 else dataset
        same = sum(other.partition(" (")[0] == name for other in names.values())
        names[key] = f"{name} ({same + 1})" if same else name
    return [names[id(questions)] for questions in sets]


def count_questions(asked: QuestionSet, splits: Iterable[str]) -> str:
    """Write how many questions there are: `40 dev, 38 test questions`; empty where nobody knows."""
    *others, last = [(asked[split].total, split) for split in splits if split in asked] or [(0, "")]
    told = [f"{count:,} {split}" for count, split in others]
    return ", ".join([*told, plural(last[0], f"{last[1]} question")]) if last[1] else ""
