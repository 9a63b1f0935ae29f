"""Predictions and scores per question, and questions on which configurations disagree."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
"""Row and column of a body cell, both counted from 0."""


MAX_CACHED = 256 << 20
"""Maximum total size in bytes of the prediction files that are cached in memory."""


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """A question of a dataset, with its gold answers.

    Questions of two runs are equal if their ids and texts are equal.

    Args:
        question_id: id of the question in the dataset.
        text: text of the question.
        answers: gold answers, each of which is correct.
        source: source of the answer: "table", "passage" or "missing". Empty if unknown.
        subsets: names of the subsets that contain the question.
        table_id: id of the question's table.
        candidates: cells that contain the answer or link to it, as (row, column). Empty if unknown.
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
    """Answer that a run predicted for a question, with its scores and cells.

    Args:
        text: predicted answer.
        scores: scores of the answer by name, as fractions. Empty if the gold answer is unknown.
        cells: predicted cells as (row, column), most probable first.
        is_selection: whether the answer consists of all `cells`. Otherwise `cells` is a ranking.
        confidence: confidence in the answer, None if the run did not record it.
    """

    text: str
    scores: Mapping[str, float]
    cells: tuple[Cell, ...] = ()
    is_selection: bool = False
    confidence: float | None = None

    @property
    def chosen(self) -> tuple[Cell, ...]:
        """Cells that form the predicted answer: all selected cells, or the best ranked cell."""
        return self.cells if self.is_selection else self.cells[:1]


Questions = Mapping[ScoredQuestion, Prediction]
"""Predictions of a run on a split, by question."""
Scored = Mapping[ScoredQuestion, tuple[Prediction, float]]
"""Predictions of a run with their scores by one metric, by question."""


def load_questions(run: LoadedRun, split: str) -> Questions:
    """Read {question: prediction} of a run on a split.

    The result is empty if the run has no predictions on the split.
    """
    return read_predictions(run.folder / "predictions" / f"{split}.json")


_cached: dict[tuple[Path, int, int], Questions] = {}
"""Recently read predictions by path, modification time (ns) and size (bytes) of the file."""


def read_predictions(file: Path) -> Questions:
    """Read a file of predictions by question, with a cache that detects changes of the file.

    The result is empty if the file is missing or damaged.
    """
    with suppress(Exception):  # Damage can cause any exception.
        status = file.stat()
        version = (file, status.st_mtime_ns, status.st_size)
        if version not in _cached:
            rows = [row for row in load_json(file) if isinstance(row, dict) and row.get("question_id") is not None]
            _cached[version] = {_question(row): _prediction(row) for row in rows}
            # Files of a comparison have similar sizes.
            while len(_cached) > max(1, MAX_CACHED // max(1, status.st_size)):
                del _cached[next(iter(_cached))]
        return _cached[version]
    return {}


def keep_scored(questions: Questions) -> Questions:
    """Remove questions whose predictions were not scored, if other predictions were."""
    return {question: answer for question, answer in questions.items() if answer.scores} or questions


def describe_unscored(questions: Questions) -> str:
    """Return a clause that states how many questions have no score, to end a sentence.

    The result is empty if all questions have scores.
    """
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
    valid = {clean(name): float(value) for name, value in pairs if is_number(value) and is_finite(value)}
    return Prediction(_text(row.get("pred")), valid, _cells(row.get("cells")), "aggregation" in row, _confidence(row))


def _confidence(row: Mapping[str, Any]) -> float | None:
    """Return the recorded confidence of a prediction, else the probability of its first cell."""
    cells = row.get("cells")
    top_cell = cells[0] if isinstance(cells, list) and cells else None
    value = row.get("confidence", top_cell[2] if isinstance(top_cell, list) and len(top_cell) > 2 else None)
    return float(value) if is_number(value) and is_finite(value) else None


def _cells(value: object) -> tuple[Cell, ...]:
    """Convert lists [row, column, ...] to cells (row, column). Invalid entries are skipped."""
    lists = [cell[:2] for cell in value if isinstance(cell, list)] if isinstance(value, list) else []
    return tuple((cell[0], cell[1]) for cell in lists if list(map(type, cell)) == [int, int])


def _text(value: object) -> str:
    return "" if value is None else clean(value)


def scored_runs(group: Configuration, metric: str) -> dict[LoadedRun, Scored]:
    """Read each run's predictions that have a score: {run: {question: (prediction, score)}}.

    The folds of a cross-validation are joined: the first fold gets the questions of all folds.

    Args:
        group: configuration of the runs.
        metric: full name of the metric, such as `dev/hits@1`, or `dev/hits@1/table` for a subset of the questions.

    Returns:
        The scored predictions of each run that has any.
    """
    name, scores = MetricName.parse(metric), dict[LoadedRun, Scored]()
    for run in group.counted:
        if metric in run.metrics and (questions := _score_questions(load_questions(run, name.split), name)):
            scores[run] = questions
    return {
        folds[0]: {key: pair for run in folds for key, pair in scores[run].items()} for folds in join_folds([*scores])
    }


def _score_questions(questions: Questions, name: MetricName) -> Scored:
    """Return {question: (prediction, score)} for the questions that have the metric.

    The metrics `gold_em` and `gold_f1` are computed by a reader that is given the gold cell. Predictions without
    `gold_em` or `gold_f1` use `em` or `f1`.
    """
    scores: dict[ScoredQuestion, tuple[Prediction, float]] = {}
    for question, prediction in questions.items():
        value = prediction.scores.get(name.score, prediction.scores.get(name.score.removeprefix("gold_")))
        if value is not None and name.part in ("", question.source, *question.subsets):
            scores[question] = (prediction, value)
    return scores


def question_scores(group: Configuration, metric: str) -> dict[ScoredQuestion, float]:
    """Return the score of each question, averaged over the seeds of a configuration.

    Questions that a seed did not answer are omitted.

    Args:
        group: configuration, whose counted runs with scores per question are used.
        metric: full name of the metric, see `scored_runs`.
    """
    seeds = list(scored_runs(group, metric).values())
    return {question: statistics.fmean(seed[question][1] for seed in seeds) for question in common_questions(seeds)}


def common_questions(mappings: Sequence[Mapping[ScoredQuestion, Any]]) -> list[ScoredQuestion]:
    """Return the questions that occur in all mappings, in the order of the first mapping."""
    first, *tail = mappings or [{}]
    return [question for question in first if all(question in mapping for mapping in tail)]


SHOWN = 20
"""Default maximum number of displayed questions."""


@dataclass(frozen=True)
class ModelAnswer:
    """The predicted answers of all runs of one configuration to one question.

    Args:
        label: label of the configuration.
        texts: predicted answers with the number of seeds that predicted them, most frequent first.
        score: mean score over the seeds.
        cells: cells that any seed predicted, as (row, column).
    """

    label: str
    texts: tuple[tuple[str, int], ...]
    score: float
    cells: tuple[Cell, ...] = ()


@dataclass(frozen=True)
class Disagreement:
    """A question with the answers of configurations whose scores on it differ.

    Args:
        question: the question.
        answers: answers of the configurations that were evaluated on the question.
    """

    question: ScoredQuestion
    answers: tuple[ModelAnswer, ...]

    @property
    def spread(self) -> float:
        """Difference between the highest and the lowest score on the question."""
        scores = [answer.score for answer in self.answers]
        return max(scores) - min(scores)

    @property
    def pattern(self) -> tuple[tuple[str, bool], ...]:
        """Which configurations succeeded on the question, as (label, success) pairs.

        A configuration was successful if its score is nearer to the highest score than to the lowest score.
        """
        middle = sum(bound(answer.score for answer in self.answers) for bound in (min, max)) / 2
        return tuple((answer.label, answer.score > middle) for answer in self.answers)


def disagreements(groups: Sequence[Configuration], metric: str, most: int = SHOWN) -> tuple[Disagreement, ...]:
    """Return the questions on which scores of configurations differ, largest difference first.

    Questions with equal difference alternate between the patterns of successful configurations, so that the first
    questions show different patterns.

    Args:
        groups: configurations, in the order of the answers.
        metric: full name of the metric, see `scored_runs`.
        most: maximum number of questions.
    """
    question_answers: dict[ScoredQuestion, list[ModelAnswer]] = {}
    for group in groups:
        seeds = list(scored_runs(group, metric).values())
        for question in common_questions(seeds):
            question_answers.setdefault(question, []).append(_answer(group.label, [seed[question] for seed in seeds]))
    cases = (Disagreement(question, tuple(answers)) for question, answers in question_answers.items())
    differing = [case for case in cases if case.spread > 0]
    differing.sort(key=lambda case: (-case.spread, case.question.question_id))
    turns: defaultdict[tuple[tuple[str, bool], ...], count[int]] = defaultdict(count)
    return tuple(sorted(differing, key=lambda case: (-case.spread, next(turns[case.pattern])))[:most])


def _answer(label: str, answers: Sequence[tuple[Prediction, float]]) -> ModelAnswer:
    texts = Counter(prediction.text for prediction, _ in answers)
    cells = dict.fromkeys(cell for prediction, _ in answers for cell in prediction.chosen)
    return ModelAnswer(label, tuple(texts.most_common()), statistics.fmean(score for _, score in answers), tuple(cells))
