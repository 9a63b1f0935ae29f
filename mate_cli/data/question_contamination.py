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
        ordered: the pairs of neighbours and the words: pairs are rarer.
        grams: the same as a set.
        numbers: the words with digits.
        answer: its words; none where the answer is not known.
    """

    words: tuple[str, ...]
    ordered: tuple[str, ...]
    grams: frozenset[str]
    numbers: frozenset[str]
    answer: tuple[str, ...]

    @classmethod
    def of(cls, question: HybridQAQuestion) -> QuestionMarks:
        """Build the marks of a question."""
        return cls._of(question.text, question.answer)

    @classmethod
    @lru_cache(maxsize=1 << 10)
    def _of(cls, text: str, answer: str | None) -> QuestionMarks:
        words = normalize_words(text)
        ordered = (*sorted({*map(" ".join, pairwise(words))}), *sorted({*words}))
        numbers = frozenset(word for word in words if any(map(str.isdigit, word)))
        return cls(words, ordered, frozenset(ordered), numbers, () if answer is None else normalize_words(answer))

    def rarest(self, near: float) -> tuple[str, ...]:
        """Return grams of which two questions share one or more where their overlap is `near` or above.

        Source: Chaudhuri, Ganti and Kaushik (2006), the prefix filter of set similarity joins.
        """
        return self.ordered[: int(len(self.grams) * (1 - near) + 1e-9) + 1]

    def overlap(self, other: QuestionMarks) -> float:
        """Return Jaccard's index of the words and pairs of two questions, 0 to 1."""
        shared = len(self.grams & other.grams)
        return shared / (len(self.grams) + len(other.grams) - shared)

    def same_answer(self, other: QuestionMarks) -> bool:
        """Tell whether the answers are equal, not by chance alone: not where each question has a number of its own."""
        apart = self.numbers - other.numbers and other.numbers - self.numbers
        return self.answer == other.answer and not apart


class KnownQuestions:
    """Questions that others must not repeat."""

    def __init__(self, near: float = NEAR_DUPLICATE, questions: Iterable[HybridQAQuestion] = ()) -> None:
        self.near = near
        self._words: set[tuple[str, tuple[str, ...]]] = set()
        self._marks: dict[str, list[QuestionMarks]] = defaultdict(list)
        self._having: dict[tuple[str, str], int] = defaultdict(int)  # of a table and a gram, a bit for each question
        for question in questions:
            self.add(question)

    def add(self, question: HybridQAQuestion) -> None:
        """Learn one more."""
        marks = QuestionMarks.of(question)
        self._words.add((question.table_id, marks.words))
        for gram in marks.rarest(self.near):
            self._having[question.table_id, gram] |= 1 << len(self._marks[question.table_id])
        self._marks[question.table_id].append(marks)

    def holds(self, question: HybridQAQuestion, *, same_answer: bool = False) -> str:
        """Say why a question is one of these: "equal", "near-equal", or "" where it is not.

        Only those of its table are looked at. With `same_answer`, near-equal ones must share it: templates have many
        answers.
        """
        marks, table = QuestionMarks.of(question), question.table_id
        if (table, marks.words) in self._words:
            return "equal"
        alike = 0
        for gram in marks.rarest(self.near) if table in self._marks else ():
            alike |= self._having.get((table, gram), 0)
        found = (self._marks[table][place] for place in _bits(alike))
        near = (other for other in found if marks.overlap(other) >= self.near)
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
        found, whose = evaluated.holds(question), EVALUATION
        if not found:
            found, whose = learnt.holds(question, same_answer=True), TRAINING
        if not found:
            learnt.add(question)
        reasons.append(f"{found} to {whose}" if found else "")
    return reasons


@lru_cache(maxsize=1 << 16)
def normalize_words(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case, without accents and punctuation."""
    return tuple(format_text(strip_accents(text)).split())
