"""Questions that configurations answer differently well, with what each of them answered."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.questions import Cell, Prediction, ScoredQuestion, common_questions, scored_runs

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
    cases = [Disagreement(question, tuple(answers)) for question, answers in asked.items()]
    cases = sorted(
        (case for case in cases if case.spread > 0), key=lambda case: (-case.spread, case.question.question_id)
    )
    turns: Counter[tuple[tuple[str, bool], ...]] = Counter()
    places = []
    for case in cases:
        turns[case.pattern] += 1
        places.append((-case.spread, turns[case.pattern], case.question.question_id))
    return tuple(case for _, case in sorted(zip(places, cases, strict=True), key=lambda pair: pair[0])[:most])


def _answer(label: str, answers: Sequence[tuple[Prediction, float]]) -> ModelAnswer:
    texts = Counter(prediction.text for prediction, _ in answers)
    cells = dict.fromkeys(cell for prediction, _ in answers for cell in prediction.chosen)
    return ModelAnswer(label, tuple(texts.most_common()), statistics.fmean(score for _, score in answers), tuple(cells))
