"""Detection of questions that duplicate a training or evaluation question (a leak).

Two questions about the same table are equal if they have the same words, ignoring case, accents and punctuation. Two
questions are near-equal if they share most of their words and pairs of adjacent words (Jaccard index).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from mate_cli.data.datasets.hybridqa.files import HybridQAQuestion
from mate_cli.tables.text import format_text, strip_accents

NEAR_DUPLICATE = 0.7
"""Minimum Jaccard index of near-equal questions, which allows one word more in six words, or one other word in nine."""
EVALUATION, TRAINING = "one of evaluation", "another of training"


@dataclass(frozen=True, slots=True)
class QuestionFingerprint:
    """Normalized words of a question and its answer, to detect duplicate questions.

    Args:
        words: normalized words, in order.
        grams: distinct words and pairs of adjacent words.
        answer: normalized words of the answer. Empty if the answer is unknown.
    """

    words: tuple[str, ...]
    grams: frozenset[str]
    answer: tuple[str, ...]

    @classmethod
    @lru_cache(maxsize=1 << 10)
    def of(cls, question: HybridQAQuestion) -> QuestionFingerprint:
        """Return the fingerprint of a question, which is computed once and cached."""
        words, answer = normalize_words(question.text), question.answer
        return cls(
            words,
            frozenset([*words, *map(" ".join, pairwise(words))]),
            () if answer is None else normalize_words(answer),
        )

    def overlap(self, other: QuestionFingerprint) -> float:
        """Compute the Jaccard index (0 to 1) of the words and word pairs of two questions."""
        shared_count = len(self.grams & other.grams)
        return shared_count / (len(self.grams) + len(other.grams) - shared_count)

    def same_answer(self, other: QuestionFingerprint) -> bool:
        """Return whether two questions have equal answers and may ask for the same value.

        The result is False if each question contains a number that the other question lacks.
        """
        numbers, other_numbers = (
            {word for word in fingerprint.words if any(map(str.isdigit, word))} for fingerprint in (self, other)
        )
        return self.answer == other.answer and not (numbers - other_numbers and other_numbers - numbers)


class KnownQuestions:
    """Index of questions by table, to find equal and near-equal questions.

    Args:
        near: minimum overlap of near-equal questions.
        questions: questions to add.
    """

    def __init__(self, near: float = NEAR_DUPLICATE, questions: Iterable[HybridQAQuestion] = ()) -> None:
        self.near = near
        self._by_table: dict[str, list[QuestionFingerprint]] = defaultdict(list)
        for question in questions:
            self.add(question)

    def add(self, question: HybridQAQuestion) -> None:
        """Index a question, to find later questions that duplicate it."""
        self._by_table[question.table_id].append(QuestionFingerprint.of(question))

    def find_repeat(self, question: HybridQAQuestion, *, same_answer: bool = False) -> str:
        """Return "equal" or "near-equal" if an indexed question duplicates `question`, else "".

        Args:
            question: question to look up.
            same_answer: whether near-equal questions must have the same answer, as questions from one template have
                many answers.
        """
        fingerprint, candidates = QuestionFingerprint.of(question), self._by_table.get(question.table_id, ())
        if any(candidate.words == fingerprint.words for candidate in candidates):
            return "equal"
        near_equal = (candidate for candidate in candidates if fingerprint.overlap(candidate) >= self.near)
        is_repeated = any(not same_answer or fingerprint.same_answer(candidate) for candidate in near_equal)
        return "near-equal" if is_repeated else ""


def find_repetitions(
    questions: Sequence[HybridQAQuestion],
    training: Iterable[HybridQAQuestion],
    evaluation: Iterable[HybridQAQuestion],
    near: float = NEAR_DUPLICATE,
) -> list[str]:
    """Return why each additional question must not be used for training, "" if it may be used.

    Questions that duplicate a training or evaluation question are excluded. Of additional questions that are duplicates
    of each other, the first is used. Questions near-equal to evaluation questions are excluded regardless of their
    answer.

    Args:
        questions: additional questions.
        training: questions of the train split.
        evaluation: questions of the splits for evaluation.
        near: minimum overlap of near-equal questions.
    """
    known_evaluation, known_training = KnownQuestions(near, evaluation), KnownQuestions(near, training)
    reasons = []
    for question in questions:
        relation, origin = known_evaluation.find_repeat(question), EVALUATION
        if not relation:
            relation, origin = known_training.find_repeat(question, same_answer=True), TRAINING
        if not relation:
            known_training.add(question)
        reasons.append(f"{relation} to {origin}" if relation else "")
    return reasons


@lru_cache(maxsize=1 << 16)
def normalize_words(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case, without accents and punctuation."""
    return tuple(format_text(strip_accents(text)).split())
