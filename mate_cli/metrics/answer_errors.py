"""Error analysis: nearly right answers, wrong numbers, other entities, and cells of the wrong row.

Source: MATE paper, section 7, whose authors sorted the errors of MATE on the development split of HybridQA by hand.
Here rules do it, and the shares are near theirs in kind, not made to equal them.
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
"""Titles of the kinds of errors, in the order shown; those of answers that are nearer come first."""
NEAR: tuple[Kind, ...] = ("number_form", "too_many", "too_few")
"""One is within the other once both are normalised, or both are the same number."""
SAME_TYPE: tuple[Kind, ...] = ("wrong_number", "same_type")
Place = Literal["right_cell", "wrong_column", "wrong_row"]
PLACES: dict[Place, str] = {
    "right_cell": "right cell",
    "wrong_column": "right row, wrong column",
    "wrong_row": "wrong row",
}
"""Titles of the places of chosen cells, of questions of which some cell holds the answer or links to it."""
PAPER = {
    "near misses": 0.55,
    "numbers (% of near misses)": 0.30,
    "words (% of near misses)": 0.58,
    "right answer type (% of other errors)": 0.80,
}
"""Shares in the MATE paper; of the last one it says that it is more."""

_CARDINALS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_ORDINALS = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_NAMES_OF_MONTHS = "january february march april may june july august september october november december"
_BETWEEN = "of and in on at for to by with de la von van der al"
_MONTHS, _SMALL = (frozenset(words.split()) for words in (_NAMES_OF_MONTHS, _BETWEEN))
NUMBER_WORDS = {word: str(value) for words in (_CARDINALS, _ORDINALS) for value, word in enumerate(words.split())}
NUMBER_WORDS |= {word: str(10 * value) for value, word in enumerate(_TENS.split(), 3)}
NUMBER_WORDS |= {"once": "1", "twice": "2", "hundred": "100", "thousand": "1000", "million": "1000000"}
_DIGITS = re.compile(r"^(\d+)(st|nd|rd|th|s)?$")


def answer_error(prediction: str, references: Sequence[str]) -> Kind | None:
    """Return what is wrong with an answer; None where it is one of the references once normalised.

    Of several references the one to which the answer is nearest counts.
    """
    if any(exact_match(prediction, reference) for reference in references):
        return None
    if not normalize_answer(prediction):
        return "empty"
    kinds = {_against(prediction, reference) for reference in references if normalize_answer(reference)}
    return next((kind for kind in KINDS if kind in kinds), "other_type")


def place_of(cell: tuple[int, int], candidates: Collection[tuple[int, int]]) -> Place:
    """Return where a cell stands, by (row, column), beside those that hold the answer or link to it."""
    if cell in candidates:
        return "right_cell"
    return "wrong_column" if cell[0] in {row for row, _ in candidates} else "wrong_row"


@dataclass
class ErrorCounts:
    """Wrong answers of some questions, counted."""

    questions: int = 0
    kinds: Counter[Kind] = field(default_factory=Counter)
    places: Counter[Place] = field(default_factory=Counter)

    @property
    def wrong(self) -> int:
        """All wrong answers."""
        return self.kinds.total()

    def shares(self) -> dict[str, float]:
        """Return the shares that `PAPER` has, as far as there are such answers."""
        near, same = (sum(self.kinds[kind] for kind in kinds) for kinds in (NEAR, SAME_TYPE))
        numbers, rest = self.kinds["number_form"], self.wrong - near
        parts = {
            "near misses": (near, self.wrong),
            "numbers (% of near misses)": (numbers, near),
            "words (% of near misses)": (near - numbers, near),
            "right answer type (% of other errors)": (same, rest),
        }
        return {name: part / whole for name, (part, whole) in parts.items() if whole}


@dataclass(frozen=True)
class AnsweredQuestion:
    """An answer and what is known of its question.

    Args:
        cell: where it was looked for; None where that is no cell.
        candidates: the cells that hold the answer or link to it; none where no cell does, or nobody says.
    """

    prediction: str
    references: Sequence[str]
    cell: tuple[int, int] | None = None
    candidates: Collection[tuple[int, int]] = ()


def count_errors(answered: Iterable[AnsweredQuestion]) -> ErrorCounts:
    """Sort the wrong ones among some answers."""
    counts = ErrorCounts()
    for question in answered:
        counts.questions += 1
        kind = answer_error(question.prediction, question.references)
        if kind is None:
            continue
        counts.kinds[kind] += 1
        if question.cell is not None and question.candidates:
            counts.places[place_of(question.cell, question.candidates)] += 1
    return counts


@lru_cache(maxsize=1 << 16)  # runs that are compared give the same wrong answers
def _against(prediction: str, reference: str) -> Kind:
    ours, theirs = (_numbered(normalize_answer(text).split()) for text in (prediction, reference))
    shared = Counter(ours) & Counter(theirs)
    if shared.total() == min(len(ours), len(theirs)):
        digits = [word for word in shared if word.isdigit()]
        if len(digits) == len(shared) or (digits and len(ours) == len(theirs)):
            return "number_form"
        return "too_many" if len(ours) >= len(theirs) else "too_few"
    types = _type_of(prediction), _type_of(reference)
    if types[0] != types[1]:
        return "other_type"
    return "wrong_number" if types[0] in ("number", "date") else "same_type"


def _numbered(words: Sequence[str]) -> list[str]:
    """Return the words with numbers in digits, without what makes them ordinal."""
    tokens = [NUMBER_WORDS.get(word, word) for word in words]
    return [match[1].lstrip("0") or "0" if (match := _DIGITS.match(word)) else word for word in tokens]


def _type_of(text: str) -> str:
    """Return what an answer is: a date, a number, a name (its longer words are capitalised), or words."""
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
