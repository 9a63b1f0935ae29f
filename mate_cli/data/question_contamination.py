"""Questions that repeat one that is learnt from already, or one of an evaluation split: learning them is a leak.

Two questions are equal where they have the same words on the same table, without case, accents and punctuation. They
are near-equal where they share most of their words and pairs of neighbouring words (Jaccard's index).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from mate_cli.data.datasets.hybridqa.files import HybridQAQuestion
from mate_cli.tables.text import format_text, strip_accents

NEAR_DUPLICATE = 0.7
"""The index from which on questions are near-equal: a word more in one of six, or another word in one of nine."""
EVALUATION, TRAINING = "one of evaluation", "another of training"


@dataclass(frozen=True, slots=True)
class QuestionMarks:
    """Words by which a question is recognized.

    Args:
        words: all of them, in order.
        grams: the words and the pairs of neighbours, the longest first: these are rarer.
        answer: its words; none where the answer is not known.
    """

    words: tuple[str, ...]
    grams: tuple[str, ...]
    answer: tuple[str, ...]

    @classmethod
    @lru_cache(maxsize=1 << 10)
    def of(cls, question: HybridQAQuestion) -> QuestionMarks:
        """Build the marks of a question."""
        words, answer = normalize_words(question.text), question.answer
        grams = sorted(sorted({*words, *map(" ".join, pairwise(words))}), key=len, reverse=True)
        return cls(words, tuple(grams), () if answer is None else normalize_words(answer))

    def rarest(self, near: float) -> tuple[str, ...]:
        """Return grams of which two questions share one or more where their overlap is `near` or above.

        Source: Chaudhuri, Ganti and Kaushik (2006), the prefix filter of set similarity joins.
        """
        return self.grams[: int(len(self.grams) * (1 - near) + 1e-9) + 1]

    def overlap(self, other: QuestionMarks) -> float:
        """Return Jaccard's index of the words and pairs of two questions, 0 to 1."""
        shared = len({*self.grams}.intersection(other.grams))
        return shared / (len(self.grams) + len(other.grams) - shared)

    def same_answer(self, other: QuestionMarks) -> bool:
        """Tell whether the answers are equal, not by chance alone: not where each question has a number of its own."""
        ours, theirs = ({word for word in marks.words if any(map(str.isdigit, word))} for marks in (self, other))
        return self.answer == other.answer and not (ours - theirs and theirs - ours)


class KnownQuestions:
    """Questions that others must not repeat."""

    def __init__(self, near: float = NEAR_DUPLICATE, questions: Iterable[HybridQAQuestion] = ()) -> None:
        self.near = near
        self._marks: dict[str, list[QuestionMarks]] = defaultdict(list)  # of the questions of a table
        self._having: dict[str, dict[str, int]] = defaultdict(dict)  # of a table and a gram, a bit for each question
        for question in questions:
            self.add(question)

    def add(self, question: HybridQAQuestion) -> None:
        """Learn one more."""
        marks, having = QuestionMarks.of(question), self._having[question.table_id]
        known = self._marks[question.table_id]
        for gram in marks.rarest(self.near):
            having[gram] = having.get(gram, 0) | 1 << len(known)
        known.append(marks)

    def holds(self, question: HybridQAQuestion, *, same_answer: bool = False) -> str:
        """Say why a question is one of these: "equal", "near-equal", or "" where it is not.

        Only those of its table are looked at. With `same_answer`, near-equal ones must share it: templates have many
        answers.
        """
        if question.table_id not in self._marks:
            return ""
        marks, known = QuestionMarks.of(question), self._marks[question.table_id]
        having = self._having[question.table_id]
        alike = 0
        for gram in marks.rarest(self.near):
            alike |= having.get(gram, 0)
        others = [known[place] for place in _bits(alike)]
        if any(other.words == marks.words for other in others):
            return "equal"
        near = (other for other in others if marks.overlap(other) >= self.near)
        return "near-equal" if any(not same_answer or marks.same_answer(other) for other in near) else ""


def _bits(number: int) -> Iterator[int]:
    """Yield the places of the bits of a number that are set."""
    while number:
        yield number.bit_length() - 1
        number ^= 1 << (number.bit_length() - 1)


def find_repetitions(
    questions: Sequence[HybridQAQuestion],
    training: Iterable[HybridQAQuestion],
    evaluation: Iterable[HybridQAQuestion],
    near: float = NEAR_DUPLICATE,
) -> list[str]:
    """Say why further questions are not learnt from, "" for the others; of some that repeat each other the first is.

    Near-equals of the questions of evaluation count whatever the answer; `near` is the overlap from which on they are.
    """
    evaluated, learnt = KnownQuestions(near, evaluation), KnownQuestions(near, training)
    reasons = []
    for question in questions:
        relation, whose = evaluated.holds(question), EVALUATION
        if not relation:
            relation, whose = learnt.holds(question, same_answer=True), TRAINING
        if not relation:
            learnt.add(question)
        reasons.append(f"{relation} to {whose}" if relation else "")
    return reasons


@lru_cache(maxsize=1 << 16)
def normalize_words(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case, without accents and punctuation."""
    return tuple(format_text(strip_accents(text)).split())
