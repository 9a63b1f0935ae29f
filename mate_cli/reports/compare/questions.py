"""Answers of runs, question by question: read from predictions, scored, and where configurations disagree."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from mate_cli.files.safe_load import load_json
from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.configuration import Configuration, join_folds
from mate_cli.reports.compare.statistics import is_finite
from mate_cli.reports.runs.load import LoadedRun, clean, is_number

Cell = tuple[int, int]
"""Row and column of a body cell, both from 0."""


MAX_CACHED = 256 << 20
"""Bytes of files whose predictions stay in memory, so that each is read once."""


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """A question of a data set; equal in two runs when its id and its text are.

    Args:
        question_id: as in the data set.
        text: the question.
        answers: the right ones, any of which will do.
        source: where the answer stands: table, passage, missing, or empty when nobody knows.
        subsets: the names of the subsets that it belongs to.
        table_id: the table it is about.
        candidates: the cells that hold the answer or link to it, as (row, column); none where nobody says.
    """

    question_id: str
    text: str
    answers: tuple[str, ...] = field(default=(), compare=False)
    source: str = field(default="", compare=False)
    subsets: tuple[str, ...] = field(default=(), compare=False)
    table_id: str = field(default="", compare=False)
    candidates: tuple[Cell, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Prediction:
    """An answer of a run, and its scores as fractions by name; without scores where the right answer is not known.

    Args:
        text: the answer.
        scores: by name.
        cells: the cells that it points at, as (row, column), the best first.
        is_selection: all of these cells are the answer; else they are a ranking.
        confidence: in the answer, as far as it was recorded.
    """

    text: str
    scores: Mapping[str, float]
    cells: tuple[Cell, ...] = ()
    is_selection: bool = False
    confidence: float | None = None

    @property
    def chosen(self) -> tuple[Cell, ...]:
        """The cells that are the answer, or lead to it."""
        return self.cells if self.is_selection else self.cells[:1]


Questions = Mapping[ScoredQuestion, Prediction]
"""All that a run answered on a split."""
Scored = Mapping[ScoredQuestion, tuple[Prediction, float]]
"""Answers of a run with their scores."""


def load_questions(run: LoadedRun, split: str) -> Questions:
    """Read a run's predictions of a split, see `read_predictions`."""
    return read_predictions(run.folder / "predictions" / f"{split}.json")


_cached: dict[tuple[Path, int, int], Questions] = {}
"""Answers that were read last, by file, the time when it was changed, and its size."""


def read_predictions(file: Path) -> Questions:
    """Read a file of predictions, once while it stays as it is; nothing of one that is not there or is damaged."""
    try:
        status = file.stat()
    except (OSError, ValueError):
        return {}
    version = (file, status.st_mtime_ns, status.st_size)
    if version not in _cached:
        _cached[version] = _parse(file)
        while len(_cached) > max(1, MAX_CACHED // max(1, status.st_size)):  # those of a comparison are about as large
            del _cached[next(iter(_cached))]
    return _cached[version]


def _parse(file: Path) -> Questions:
    try:
        rows = load_json(file)
    except (OSError, ValueError):
        return {}
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {_question(row): _prediction(row) for row in rows if row.get("question_id") is not None}


def keep_scored(questions: Questions) -> Questions:
    """Return the questions whose answers are known: those with scores, or all of a file without any scores."""
    return {question: answer for question, answer in questions.items() if answer.scores} or questions


def describe_unscored(questions: Questions) -> str:
    """Return how many questions are not scored, to stand behind a number of questions; empty if all are."""
    count = len(questions) - len(keep_scored(questions))
    return f"; {count:,} whose answers are not known are not scored" if count else ""


def _question(row: Mapping[str, Any]) -> ScoredQuestion:
    answers, subsets = row.get("answer"), row.get("subsets")
    return ScoredQuestion(
        question_id=clean(row["question_id"]),
        text=_text(row.get("question")),
        answers=tuple(map(_text, answers)) if isinstance(answers, list) else (),
        source=_text(row.get("source")),
        subsets=tuple(map(_text, subsets)) if isinstance(subsets, list) else (),
        table_id=_text(row.get("table_id")),
        candidates=_cells(row.get("answer_cells")),
    )


def _prediction(row: Mapping[str, Any]) -> Prediction:
    scores = row.get("scores")
    pairs = scores.items() if isinstance(scores, dict) else ()
    known = {clean(name): float(value) for name, value in pairs if is_number(value) and is_finite(value)}
    return Prediction(_text(row.get("pred")), known, _cells(row.get("cells")), "aggregation" in row, _confidence(row))


def _confidence(row: Mapping[str, Any]) -> float | None:
    """Return the confidence in an answer: as recorded, else the probability of its best cell."""
    cells = row.get("cells")
    best = cells[0] if isinstance(cells, list) and cells else None
    value = row.get("confidence", best[2] if isinstance(best, list) and len(best) > 2 else None)
    return float(value) if is_number(value) and is_finite(value) else None


def _cells(value: object) -> tuple[Cell, ...]:
    """Return cells of a list of [row, column, ...]; what is none is left out."""
    lists = [cell[:2] for cell in value if isinstance(cell, list)] if isinstance(value, list) else []
    return tuple((cell[0], cell[1]) for cell in lists if list(map(type, cell)) == [int, int])


def _text(value: object) -> str:
    return "" if value is None else clean(value)


def scored_runs(group: Configuration, metric: str) -> dict[LoadedRun, Scored]:
    """Return what each run of a configuration that counts answered to the questions that it has a score for.

    The folds of a cross-validation are one: the first stands for all, with the questions of all.

    Args:
        group: the configuration.
        metric: its full name, such as `dev/hits@1`, or `dev/hits@1/table` for a part of the questions.
    """
    name, scored = MetricName.parse(metric), dict[LoadedRun, Scored]()
    for run in group.counted:
        if metric in run.metrics and (questions := _score_questions(load_questions(run, name.split), name)):
            scored[run] = questions
    return {
        folds[0]: {key: pair for run in folds for key, pair in scored[run].items()} for folds in join_folds([*scored])
    }


def _score_questions(questions: Questions, name: MetricName) -> Scored:
    """Score answers; how well a reader reads in the right cell is its exact match or F1."""
    scored: dict[ScoredQuestion, tuple[Prediction, float]] = {}
    for question, prediction in questions.items():
        value = prediction.scores.get(name.score, prediction.scores.get(name.score.removeprefix("gold_")))
        if value is not None and name.part in ("", question.source, *question.subsets):
            scored[question] = (prediction, value)
    return scored


def question_scores(group: Configuration, metric: str) -> dict[ScoredQuestion, float]:
    """Return the mean score of every question over the seeds, for the questions that all of these seeds have.

    Args:
        group: the configuration, of which the runs that count and have per-question scores are used.
        metric: see `scored_runs`.
    """
    seeds = list(scored_runs(group, metric).values())
    return {question: statistics.fmean(seed[question][1] for seed in seeds) for question in common_questions(seeds)}


def common_questions(mappings: Sequence[Mapping[ScoredQuestion, Any]]) -> list[ScoredQuestion]:
    """List the questions that all of the mappings have, in the order of the first."""
    first, *others = mappings or [{}]
    return [question for question in first if all(question in other for other in others)]


SHOWN = 20
"""Questions that are shown where nobody asks for another number."""


@dataclass(frozen=True)
class ModelAnswer:
    """The answers of a configuration to a question.

    Args:
        label: of the configuration.
        texts: its predictions with the number of seeds that made them, most frequent first.
        score: mean over its seeds.
        cells: the cells that any of its seeds chose, as (row, column).
    """

    label: str
    texts: tuple[tuple[str, int], ...]
    score: float
    cells: tuple[Cell, ...] = ()


@dataclass(frozen=True)
class Disagreement:
    """A question that configurations answer differently well; configurations that were not asked it are left out."""

    question: ScoredQuestion
    answers: tuple[ModelAnswer, ...]

    @property
    def spread(self) -> float:
        """Between the best and the worst score."""
        scores = [answer.score for answer in self.answers]
        return max(scores) - min(scores)

    @property
    def pattern(self) -> tuple[tuple[str, bool], ...]:
        """Labels, each with True if its score is nearer to the best than to the worst."""
        middle = sum(bound(answer.score for answer in self.answers) for bound in (min, max)) / 2
        return tuple((answer.label, answer.score > middle) for answer in self.answers)


def disagreements(groups: Sequence[Configuration], metric: str, most: int = SHOWN) -> tuple[Disagreement, ...]:
    """List questions that configurations answer differently well, most telling first.

    Those with the widest spread come first; among equals the patterns of who is right take turns, so that the first
    few questions do not all tell the same story.

    Args:
        groups: the configurations; their order is that of the answers.
        metric: see `scored_runs`.
        most: how many questions are returned at most.
    """
    asked: dict[ScoredQuestion, list[ModelAnswer]] = {}
    for group in groups:
        seeds = list(scored_runs(group, metric).values())
        for question in common_questions(seeds):
            asked.setdefault(question, []).append(_answer(group.label, [seed[question] for seed in seeds]))
    cases = (Disagreement(question, tuple(answers)) for question, answers in asked.items())
    differing = [case for case in cases if case.spread > 0]
    differing.sort(key=lambda case: (-case.spread, case.question.question_id))
    turns: defaultdict[tuple[tuple[str, bool], ...], count[int]] = defaultdict(count)
    return tuple(sorted(differing, key=lambda case: (-case.spread, next(turns[case.pattern])))[:most])


def _answer(label: str, answers: Sequence[tuple[Prediction, float]]) -> ModelAnswer:
    texts = Counter(prediction.text for prediction, _ in answers)
    cells = dict.fromkeys(cell for prediction, _ in answers for cell in prediction.chosen)
    return ModelAnswer(label, tuple(texts.most_common()), statistics.fmean(score for _, score in answers), tuple(cells))
