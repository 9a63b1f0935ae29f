"""Error analysis: near misses, wrong numbers, wrong entities, and cells of the wrong row.

Source: MATE paper, section 7, whose authors manually classified the errors of MATE on the dev split of HybridQA. Here
rules classify errors, so the fractions are similar to those of the paper, but not directly comparable.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from mate_cli.metrics.exact_match import exact_match, normalize_answer

Kind = Literal["empty", "number_form", "too_many", "too_few", "wrong_number", "same_type", "other_type"]
KINDS: dict[Kind, str] = {
    "number_form": "other form of the number",
    "too_many": "too many words",
    "too_few": "too few words",
    "wrong_number": "wrong number",
    "same_type": "other entity, same type",
    "other_type": "other answer type",
    "empty": "no answer",
}
"""Titles of the error types, in display order: from the most to the least similar to the correct answer."""
NEAR_MISSES: tuple[Kind, ...] = ("number_form", "too_many", "too_few")
"""Near misses: one normalized answer contains the other, or both are the same number."""
SAME_TYPE: tuple[Kind, ...] = ("wrong_number", "same_type")
Place = Literal["right_cell", "wrong_column", "wrong_row"]
PLACES: dict[Place, str] = {
    "right_cell": "right cell",
    "wrong_column": "right row, wrong column",
    "wrong_row": "wrong row",
}
"""Titles of the positions of selected cells. Used if a cell contains the answer or links to it."""
PAPER = {
    "near misses": 0.55,
    "numbers (% of near misses)": 0.30,
    "words (% of near misses)": 0.58,
    "right answer type (% of other errors)": 0.80,
}
"""Fractions reported in the MATE paper. The last is a lower bound."""

_CARDINALS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_ORDINALS = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_NAMES_OF_MONTHS = "january february march april may june july august september october november december"
_SMALL_WORDS = "of and in on at for to by with de la von van der al"
_MONTHS, _SMALL = (frozenset(words.split()) for words in (_NAMES_OF_MONTHS, _SMALL_WORDS))
NUMBER_WORDS = {word: str(value) for words in (_CARDINALS, _ORDINALS) for value, word in enumerate(words.split())}
NUMBER_WORDS |= {word: str(10 * value) for value, word in enumerate(_TENS.split(), 3)}
NUMBER_WORDS |= {"once": "1", "twice": "2", "hundred": "100", "thousand": "1000", "million": "1000000"}
_DIGITS = re.compile(r"^(\d+)(st|nd|rd|th|s)?$")


def answer_error(prediction: str, references: Sequence[str]) -> Kind | None:
    """Return the error type of a predicted answer, or None if it equals a reference answer.

    Texts are compared after normalization. With several references, the error type that is most similar to a correct
    answer is returned.
    """
    if any(exact_match(prediction, reference) for reference in references):
        return None
    if not normalize_answer(prediction):
        return "empty"
    kinds = {_classify_error(prediction, reference) for reference in references if normalize_answer(reference)}
    return next((kind for kind in KINDS if kind in kinds), "other_type")


def place_of(cell: tuple[int, int], candidates: Collection[tuple[int, int]]) -> Place:
    """Classify a cell that a model selected: correct, wrong column or wrong row.

    Args:
        cell: (row, column) of the selected cell, both from 0.
        candidates: cells that contain the answer or link to it.
    """
    if cell in candidates:
        return "right_cell"
    return "wrong_column" if cell[0] in {row for row, _ in candidates} else "wrong_row"


@dataclass
class ErrorCounts:
    """Counts of wrong answers by type of error, and by location of the wrongly selected cell."""

    questions: int = 0
    kinds: Counter[Kind] = field(default_factory=Counter)
    places: Counter[Place] = field(default_factory=Counter)

    @property
    def wrong(self) -> int:
        """Number of wrong answers of all types."""
        return self.kinds.total()

    def shares(self) -> dict[str, float]:
        """Compute the error statistics of the MATE paper, as fractions by title.

        The titles are those of `PAPER`.

        Fractions with a denominator of 0 are omitted.
        """
        num_near, num_same_type = (sum(self.kinds[kind] for kind in kinds) for kinds in (NEAR_MISSES, SAME_TYPE))
        numbers, num_other = self.kinds["number_form"], self.wrong - num_near
        parts = (
            (num_near, self.wrong),
            (numbers, num_near),
            (num_near - numbers, num_near),
            (num_same_type, num_other),
        )
        return {name: part / total for name, (part, total) in zip(PAPER, parts, strict=True) if total}


@dataclass(frozen=True)
class AnsweredQuestion:
    """A predicted answer with the gold answers and cells, to classify its error.

    Args:
        prediction: predicted answer.
        references: reference answers.
        cell: cell (row, column) in which the answer was searched. None if the system selects no cell.
        candidates: cells that contain the answer or link to it. Empty if no cell does, or if they are unknown.
    """

    prediction: str
    references: Sequence[str]
    cell: tuple[int, int] | None = None
    candidates: Collection[tuple[int, int]] = ()


def count_errors(questions: Iterable[AnsweredQuestion]) -> ErrorCounts:
    """Classify the wrong answers of all questions, and count them by type."""
    counts = ErrorCounts()
    for question in questions:
        counts.questions += 1
        kind = answer_error(question.prediction, question.references)
        if kind is None:
            continue
        counts.kinds[kind] += 1
        if question.cell is not None and question.candidates:
            counts.places[place_of(question.cell, question.candidates)] += 1
    return counts


# Compared runs often have the same wrong answers.
@lru_cache(maxsize=1 << 16)
def _classify_error(prediction: str, reference: str) -> Kind:
    predicted_words, reference_words = (_numbered(normalize_answer(text).split()) for text in (prediction, reference))
    common_words = Counter(predicted_words) & Counter(reference_words)
    if common_words.total() == min(len(predicted_words), len(reference_words)):
        digits = [word for word in common_words if word.isdigit()]
        if len(digits) == len(common_words) or (digits and len(predicted_words) == len(reference_words)):
            return "number_form"
        return "too_many" if len(predicted_words) >= len(reference_words) else "too_few"
    types = _type_of(prediction), _type_of(reference)
    if types[0] != types[1]:
        return "other_type"
    return "wrong_number" if types[0] in ("number", "date") else "same_type"


def _numbered(words: Sequence[str]) -> list[str]:
    """Convert number words and ordinals to digits, such as "second" and "2nd" to "2"."""
    tokens = [NUMBER_WORDS.get(word, word) for word in words]
    return [match[1].lstrip("0") or "0" if (match := _DIGITS.match(word)) else word for word in tokens]


def _type_of(text: str) -> str:
    """Classify the text of an answer as "date", "number", "name" or "words".

    A name consists of capitalized words.

    Function words of a name may be in lower case.
    """
    words = [word for word in re.findall(r"[^\W_]+", text) if word.lower() not in _SMALL]
    numbered = _numbered([word.lower() for word in words])
    digits = [word for word in numbered if word.isdigit()]
    is_year = len(digits) == len(words) == 1 and len(digits[0]) == 4
    if is_year or (digits and any(word in _MONTHS for word in numbered)):
        return "date"
    if digits and len(digits) * 2 >= len(words):
        return "number"
    letters = [word for word in words if word[0].isalpha()]
    return "name" if letters and all(word[0].isupper() for word in letters) else "words"
