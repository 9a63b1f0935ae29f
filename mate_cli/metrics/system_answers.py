"""Official metrics of datasets, computed from a file with the answers of any system.

For the same answers, the metrics equal those of a training run on the dataset. A dataset refers to its metric by dotted
name (`Release.metric`). A question without a predicted answer is wrong.
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
from mate_cli.metrics.subsets import HAS_ANSWER, UNANSWERED, average_by_group, average_by_part, group_by_subset
from mate_cli.metrics.wtq_official import is_right
from mate_cli.tables.denotation import Denotation, answer_texts, denotation_of, normal_form
from mate_cli.tables.example import INFERENCES, LABELS, SystemAnswer, TableExample

Kind = TypeVar("Kind", bound=TableExample)


class AnswerMetric(ABC, Generic[Kind]):
    """Base class of the official metrics of a dataset, computed from predicted answers.

    Args:
        answers: predicted answers, by question id.

    Attributes:
        ranks: whether the cells of an answer are a ranking. False: all cells together are the answer.
    """

    ranks: ClassVar[bool] = False

    def __init__(self, answers: Mapping[str, SystemAnswer]) -> None:
        self.answers = answers

    @abstractmethod
    def score(self, examples: Mapping[str, Kind]) -> dict[str, float]:
        """Compute all metrics from the predicted answers, over the questions with a gold answer.

        The result has the form of `TableTask.score`.
        """

    def is_readable(self, example: Kind) -> bool:
        """Return whether the predicted answer has the format that the dataset requires."""
        return all(example.table.has_cell(*cell) for cell in self.answers[example.example_id].cells)

    def text(self, example: Kind) -> str:
        """Format the answer that the system predicted for a question as text."""
        return ", ".join(self.answers[example.example_id].texts)

    def details(self, example: Kind) -> dict[str, Any]:
        """Return the fields of the answer, in addition to its text, for a file of predictions."""
        answer = self.answers[example.example_id]
        fields: dict[str, Any] = {"cells": [[*cell] for cell in answer.cells]} if answer.cells else {}
        fields |= {"aggregation": answer.aggregation} if answer.cells and not self.ranks else {}
        optional_fields = {"confidence": answer.confidence, "cost": answer.cost}
        return fields | {name: value for name, value in optional_fields.items() if value is not None}


class TableAnswers(AnswerMetric[TableExample]):
    """Denotation accuracy: the share of questions whose predicted texts or cells are correct.

    The official accuracy of WikiTableQuestions is added if the dataset has canonical answers.
    """

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute denotation accuracy over all questions, over subsets, and over conversations.

        A conversation is correct if all its questions are.
        """
        questions = {name: example for name, example in examples.items() if name in self.answers}
        is_correct = {name: self._denotes(example) for name, example in questions.items()}
        scores = average_by_part(is_correct, examples, "denotation_accuracy")
        scores |= sequence_accuracy(is_correct, examples) | place_accuracy(is_correct, examples)
        if not any(example.answer and example.answer.canonical for example in examples.values()):
            return scores
        official = {name: self._is_official(example) for name, example in questions.items()}
        return scores | average_by_part(official, examples, "official_accuracy")

    def text(self, example: TableExample) -> str:
        """Return the predicted answer as text: given texts, texts of cells, or a computed number."""
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
        """Return whether the predicted texts or cells have the same denotation as the gold answer.

        Texts may also equal the gold texts by the rules of WikiTableQuestions. Empty gold cells are ignored when texts
        are compared.
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
    """Accuracy of verdicts on statements: whether the table entails or refutes the statement.

    A verdict is entailed, true, yes, supported or 1, or the opposite.

    Attributes:
        labels: label by accepted name of the verdict, in lower case.
    """

    labels: ClassVar[Mapping[str, int]] = LABELS

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute the accuracy over all statements, by subset and by input length."""
        truth = {name: example.answer for name, example in examples.items() if name in self.answers and example.answer}
        return average_by_part({n: self._label(n) == answer.label for n, answer in truth.items()}, examples, "accuracy")

    def _label(self, name: str) -> int | None:
        return self.labels.get(normalize_answer(" ".join(self.answers[name].texts)))

    def is_readable(self, example: TableExample) -> bool:
        """Return whether the predicted answer is a valid verdict, such as "entailed" or "true"."""
        return self._label(example.example_id) is not None

    def text(self, example: TableExample) -> str:
        """Return the verdict that the system predicted, such as "entailed" or "refuted"."""
        label = self._label(example.example_id)
        return super().text(example) if label is None else INFERENCES[label]


class Inferences(Statements):
    """Accuracy of InfoTabS: a hypothesis is entailed, refuted or neutral (E, C, N)."""

    labels = LABELS | {"e": 1, "entailment": 1, "c": 0, "contradiction": 0, "n": 2, "neutral": 2}


class Options(AnswerMetric[TableExample]):
    """Accuracy of multiple-choice options, given as text, as index from 0, or as letter."""

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute the accuracy over all questions and by subset."""
        questions = {name: example for name, example in examples.items() if name in self.answers}
        is_correct = {
            n: self._option_index(example) == example.answer.label for n, example in questions.items() if example.answer
        }
        return average_by_part(is_correct, examples, "accuracy")

    def _option_index(self, example: TableExample) -> int | None:
        options = [option.strip().casefold() for option in example.options]
        names = [options, list(map(str, range(len(options)))), list(ascii_lowercase[: len(options)])]
        answer_text = " ".join(self.answers[example.example_id].texts).strip().casefold()
        attempts = (
            (candidate_names, text) for candidate_names in names for text in (answer_text, answer_text.strip("(). "))
        )
        return next(
            (candidate_names.index(text) for candidate_names, text in attempts if text in candidate_names), None
        )

    def is_readable(self, example: TableExample) -> bool:
        """Return whether the predicted answer is one of the question's options."""
        return self._option_index(example) is not None

    def text(self, example: TableExample) -> str:
        """Return the text of the option that the system selected."""
        index = self._option_index(example)
        return super().text(example) if index is None else example.options[index]


class Passages(AnswerMetric[TableExample]):
    """Official SQuAD metrics: exact match and F1 against several reference answers."""

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute exact match and F1 of all questions, of subsets, and by answerability."""
        references = {name: example.answer.texts for name, example in examples.items() if example.answer}
        groups = group_by_subset(examples)
        return score_reading(texts_of(self.answers, references), references, groups if len(groups) > 1 else {})


class HybridAnswers(AnswerMetric[TableExample]):
    """Metrics of HybridQA: exact match and F1 of texts, and Hits@k of ranked cells.

    Hits@k is computed as for PointR, a model that ranks cells.
    """

    ranks = True

    def __init__(self, answers: Mapping[str, SystemAnswer]) -> None:
        super().__init__(answers)
        self._has_cells = any(answer.cells for answer in answers.values())
        self._has_texts = any(answer.texts for answer in answers.values()) or not self._has_cells

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute Hits@k, exact match and F1, over all questions and by source of the answer.

        The source is table or passage.
        """
        cells = {name: self.answers[name].cells for name in examples if name in self.answers}
        scores = score_rankings(cells, examples) if self._has_cells else {}
        return scores | (score_answers(texts_of(self.answers, examples), examples) if self._has_texts else {})

    def text(self, example: TableExample) -> str:
        """Return the predicted text, or else the text of the highest ranked cell."""
        cells = self.answers[example.example_id].cells if self.is_readable(example) else ()
        return super().text(example) or ", ".join(answer_texts("none", cells[:1], example.table))


def texts_of(answers: Mapping[str, SystemAnswer], names: Iterable[str]) -> dict[str, str]:
    """Join the predicted texts of each question to one text: {question id: text}.

    Only the questions in `names` are used.
    """
    return {name: " ".join(answers[name].texts) for name in names if name in answers}


def exact_match_of_any(prediction: str, references: Sequence[str]) -> bool:
    """Return whether a predicted text equals any reference answer after normalization.

    Without references (an unanswerable question), return whether the prediction is empty.
    """
    return any(exact_match(prediction, reference) for reference in _drop_empty(references))


def best_f1(prediction: str, references: Sequence[str]) -> float:
    """Compute the F1 of a predicted text with the most similar reference answer, from 0 to 1.

    Without references (an unanswerable question), it is 1 if the prediction is empty, else 0.
    """
    return max(f1(prediction, reference) for reference in _drop_empty(references))


def score_reading(
    predictions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    groups: Mapping[str, Collection[str]] | None = None,
) -> dict[str, float]:
    """Average exact match and F1, as fractions, over all questions and over each group.

    Args:
        predictions: answer text by question id, empty if the question is predicted to be unanswerable. A missing
            question is wrong.
        references: all correct answers by question id, empty for unanswerable questions. These questions are scored.
        groups: question ids by group name. None: no groups.

    Returns:
        em, f1, em/<group> and f1/<group>. Answerability is an additional group if only some questions have answers.

    Raises:
        DataError: `references` is empty.
    """
    if not references:
        raise DataError("no questions to score", remedy="Choose a split with answers")
    answerable = [name for name, texts in references.items() if _drop_empty(texts) != ("",)]
    kinds = {HAS_ANSWER.name: answerable, UNANSWERED.name: [name for name in references if name not in set(answerable)]}
    parts = {**(groups or {}), **(kinds if all(kinds.values()) else {})}
    pairs = {name: (predictions[name], texts) for name, texts in references.items() if name in predictions}
    exact = {name: exact_match_of_any(*pair) for name, pair in pairs.items()}
    overlap = {name: best_f1(*pair) for name, pair in pairs.items()}
    return average_by_group(EM.name, exact, references, parts) | average_by_group(F1.name, overlap, references, parts)


def _drop_empty(references: Sequence[str]) -> tuple[str, ...]:
    """Remove reference answers that are empty after normalization, such as "the".

    If none remains, return one empty answer.
    """
    return tuple(text for text in references if normalize_answer(text)) or ("",)
