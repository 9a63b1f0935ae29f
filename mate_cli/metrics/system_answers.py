"""The metrics of datasets, of answers that any system gave: those that the tasks of the same datasets have.

A dataset names its metric by its dotted name (`Release.metric`). A question without an answer is wrong.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from string import ascii_lowercase
from typing import Any, ClassVar, Generic, TypeVar

from mate_cli.errors import DataError
from mate_cli.metrics.denotation_accuracy import true_denotation
from mate_cli.metrics.exact_match import EM, F1, exact_match, f1, normalize_answer, score_answers
from mate_cli.metrics.hits_at_k import score_rankings
from mate_cli.metrics.sequence_accuracy import place_accuracy, sequence_accuracy
from mate_cli.metrics.subsets import ANSWERED, UNANSWERED, average_by_group, average_by_part, group_by_subset
from mate_cli.metrics.wtq_official import is_right
from mate_cli.tables.denotation import Denotation, answer_texts, denotation_of, normal_form
from mate_cli.tables.example import LABELS, VERDICTS, SystemAnswer, TableExample

Kind = TypeVar("Kind", bound=TableExample)


class AnswerMetric(ABC, Generic[Kind]):
    """The official metric of a dataset, of the answers of one system.

    Args:
        answers: by question.

    Attributes:
        ranks: cells are a ranking; else all of them are the answer.
    """

    ranks: ClassVar[bool] = False

    def __init__(self, answers: Mapping[str, SystemAnswer]) -> None:
        self.answers = answers

    @abstractmethod
    def score(self, examples: Mapping[str, Kind]) -> dict[str, float]:
        """Return metrics of questions whose answers are known, as `TableTask.score` does."""

    def is_readable(self, example: Kind) -> bool:
        """Tell whether the answer to a question is of the form that the dataset asks for."""
        return all(example.table.has_cell(*cell) for cell in self.answers[example.example_id].cells)

    def text(self, example: Kind) -> str:
        """Write the answer to a question for people."""
        return ", ".join(self.answers[example.example_id].texts)

    def details(self, example: Kind) -> dict[str, Any]:
        """Return what a file of predictions says of the answer besides its text."""
        answer = self.answers[example.example_id]
        told: dict[str, Any] = {"cells": [[*cell] for cell in answer.cells]} if answer.cells else {}
        told |= {"aggregation": answer.aggregation} if answer.cells and not self.ranks else {}
        known = {"confidence": answer.confidence, "cost": answer.cost}
        return told | {name: value for name, value in known.items() if value is not None}


class TableAnswers(AnswerMetric[TableExample]):
    """Denotation accuracy of texts or of cells; where the dataset says what its answers stand for, WTQ's evaluation."""

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Return the accuracies of all questions, of subsets, and of conversations."""
        questions = {name: example for name, example in examples.items() if name in self.answers}
        right = {name: self._denotes(example) for name, example in questions.items()}
        scores = average_by_part(right, examples, "denotation_accuracy")
        scores |= sequence_accuracy(right, examples) | place_accuracy(right, examples)
        if not any(example.answer and example.answer.canonical for example in examples.values()):
            return scores
        official = {name: self._is_official(example) for name, example in questions.items()}
        return scores | average_by_part(official, examples, "official_accuracy")

    def text(self, example: TableExample) -> str:
        """Return the texts, or those of the cells, or the computed number."""
        answer = self.answers[example.example_id]
        if answer.texts or not self.is_readable(example):
            return super().text(example)
        return ", ".join(answer_texts(answer.aggregation, answer.cells, example.table))

    def _denotation(self, example: TableExample) -> Denotation:
        answer = self.answers[example.example_id]
        if answer.cells and self.is_readable(example):
            return denotation_of(answer.aggregation, answer.cells, example.table)
        return answer.texts

    def _denotes(self, example: TableExample) -> bool:
        """Compare with the true denotation; texts also with the texts that the dataset states, by WTQ's rules.

        Texts leave out the cells that are empty.
        """
        assert example.answer is not None
        denotation, true = self._denotation(example), true_denotation(example.answer, example.table)
        if self.answers[example.example_id].cells:
            return normal_form(denotation) == true
        return normal_form(denotation) == (true and tuple(filter(None, true))) or self._is_official(example)

    def _is_official(self, example: TableExample) -> bool:
        assert example.answer is not None
        items = sorted(map(str, self._denotation(example)))
        return is_right(items, example.answer.texts, example.answer.canonical)


class Statements(AnswerMetric[TableExample]):
    """Accuracy of verdicts: entailed, true, yes, supported, 1, and their contraries."""

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Return the accuracy of all statements and of subsets."""
        truth = {name: example.answer for name, example in examples.items() if name in self.answers and example.answer}
        return average_by_part({n: self._label(n) == answer.label for n, answer in truth.items()}, examples, "accuracy")

    def _label(self, name: str) -> int | None:
        return LABELS.get(normalize_answer(" ".join(self.answers[name].texts)))

    def is_readable(self, example: TableExample) -> bool:
        """Tell whether it is a verdict."""
        return self._label(example.example_id) is not None

    def text(self, example: TableExample) -> str:
        """Return the verdict in words."""
        label = self._label(example.example_id)
        return super().text(example) if label is None else VERDICTS[label]


class Options(AnswerMetric[TableExample]):
    """Accuracy of options: their text, their place from 0, or their letter."""

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Return the accuracy of all questions and of subsets."""
        questions = {name: example for name, example in examples.items() if name in self.answers}
        right = {n: self._place(example) == example.answer.label for n, example in questions.items() if example.answer}
        return average_by_part(right, examples, "accuracy")

    def _place(self, example: TableExample) -> int | None:
        options = [option.strip().casefold() for option in example.options]
        names = [options, list(map(str, range(len(options)))), list(ascii_lowercase[: len(options)])]
        whole = " ".join(self.answers[example.example_id].texts).strip().casefold()
        known = ((some, text) for some in names for text in (whole, whole.strip("(). ")))
        return next((some.index(text) for some, text in known if text in some), None)

    def is_readable(self, example: TableExample) -> bool:
        """Tell whether it is an option."""
        return self._place(example) is not None

    def text(self, example: TableExample) -> str:
        """Return the text of the option."""
        place = self._place(example)
        return super().text(example) if place is None else example.options[place]


class Passages(AnswerMetric[TableExample]):
    """Exact match and F1 against several references, as SQuAD's authors score."""

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Return both of all questions, of subsets, with an answer and without."""
        references = {name: example.answer.texts for name, example in examples.items() if example.answer}
        groups = group_by_subset(examples)
        return score_reading(texts_of(self.answers, references), references, groups if len(groups) > 1 else {})


class HybridAnswers(AnswerMetric[TableExample]):
    """Exact match and F1 of texts, and Hits@k of ranked cells: the scores of PointR and of its selector."""

    ranks = True

    def __init__(self, answers: Mapping[str, SystemAnswer]) -> None:
        super().__init__(answers)
        self._has_cells = any(answer.cells for answer in answers.values())
        self._has_texts = any(answer.texts for answer in answers.values()) or not self._has_cells

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Return them of all questions, in the table and in a passage."""
        cells = {name: self.answers[name].cells for name in examples if name in self.answers}
        scores = score_rankings(cells, examples) if self._has_cells else {}
        return scores | (score_answers(texts_of(self.answers, examples), examples) if self._has_texts else {})

    def text(self, example: TableExample) -> str:
        """Return the text; without any that of the best cell."""
        cells = self.answers[example.example_id].cells if self.is_readable(example) else ()
        return super().text(example) or ", ".join(answer_texts("none", cells[:1], example.table))


def texts_of(answers: Mapping[str, SystemAnswer], names: Iterable[str]) -> dict[str, str]:
    """Return the texts of the answers to some questions, each as one."""
    return {name: " ".join(answers[name].texts) for name in names if name in answers}


def exact_match_of_any(prediction: str, references: Sequence[str]) -> bool:
    """Tell whether a prediction is one of the references once normalised; without any, whether it is empty."""
    return any(exact_match(prediction, reference) for reference in _drop_empty(references))


def best_f1(prediction: str, references: Sequence[str]) -> float:
    """Return the best F1 with any of the references, 0 to 1; without any, 1 of an empty prediction."""
    return max(f1(prediction, reference) for reference in _drop_empty(references))


def score_reading(
    predictions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    groups: Mapping[str, Collection[str]] | None = None,
) -> dict[str, float]:
    """Average exact match and F1 over all questions and over each group of them, as fractions.

    Args:
        predictions: answer text by question, empty where the reader says that there is none; a question that is
            missing counts as wrong.
        references: all answers that count as right, by question; none where nothing answers it. These are the
            questions that count.
        groups: names of questions by the group's name.

    Returns:
        em, f1, em/<group> and f1/<group>; where some questions have answers and others none, both are groups.

    Raises:
        DataError: there are no questions.
    """
    if not references:
        raise DataError("no questions to score", remedy="Choose a split with answers")
    answered = [name for name, texts in references.items() if _drop_empty(texts) != ("",)]
    kinds = {ANSWERED.name: answered, UNANSWERED.name: [name for name in references if name not in set(answered)]}
    parts = {**(groups or {}), **(kinds if all(kinds.values()) else {})}
    pairs = {name: (predictions[name], known) for name, known in references.items() if name in predictions}
    exact = {name: exact_match_of_any(*pair) for name, pair in pairs.items()}
    overlap = {name: best_f1(*pair) for name, pair in pairs.items()}
    return average_by_group(EM.name, exact, references, parts) | average_by_group(F1.name, overlap, references, parts)


def _drop_empty(references: Sequence[str]) -> tuple[str, ...]:
    """Return the references that have a word; the empty answer where none has."""
    return tuple(text for text in references if normalize_answer(text)) or ("",)
