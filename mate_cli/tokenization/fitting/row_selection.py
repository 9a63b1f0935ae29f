"""Choose the rows of a long table that a question may be about, in one pass and with little memory.

Rows are ranked by the TF-IDF of the words and numbers that they share with the question; of equal rows those with the
greatest (or least) value come first where the question asks for it, else the first in the table. A finished run may
rank them instead.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mate_cli.tables.example import TableExample
from mate_cli.tables.numbers import Date, numeric_values
from mate_cli.tables.values.column_format import ColumnFormat
from mate_cli.tokenization.expansion import SentenceIndex

_GREATEST = "most highest largest greatest biggest maximum max top best latest last newest longest"
_LEAST = "least lowest smallest fewest minimum min worst earliest first oldest shortest cheapest"
_EMPTY = (
    "the and for with from what which who whom whose when where how many much did does was were are has have had that "
    "this there than more less not all any each per is in of on at to by be do an or it as no row rows table"
)
GREATEST, LEAST, EMPTY_WORDS = (frozenset(words.split()) for words in (_GREATEST, _LEAST, _EMPTY))
"""Words that tell no rows apart; single letters are no words."""
NUMERIC_SHARE = 0.5
"""A column is compared by its values when at least this share of its cells are numbers or dates."""
_MONTHS = "january february march april may june july august september october november december"
MONTHS = tuple(_MONTHS.split())
_TERM = re.compile(r"\d{4}-\d\d(?:-\d\d)?\b|\d[\d,]*(?:\.\d+)?|[^\W\d_]\w+")
_WITH_DIGITS = re.compile(r"\S*\d\S*")


@dataclass(frozen=True)
class RowChoice:
    """The rows of a table for one question, best first.

    Args:
        question: as it was asked.
        order: places of all R rows, from 0, [R].
        matching: how many of them share a word or number with the question; these come first.
        terms: the words and numbers of the question that are found in the table, without the names of columns.
        extreme: what else orders them, such as "greatest sales"; empty where nothing does.
        column: whose values these are.
    """

    question: str
    order: np.ndarray
    matching: int
    terms: tuple[str, ...]
    extreme: str = ""
    column: int | None = None


class RowIndex:
    """Ranks the rows of a table for some questions; only what these ask for is kept of each row."""

    def __init__(
        self,
        header: Sequence[str],
        formats: Sequence[ColumnFormat],
        questions: Iterable[str],
        rows: Iterable[Sequence[str]],
    ) -> None:
        self._header = [frozenset(map(_singular, _terms(name))) for name in header]
        self._names, self._formats = list(header), formats
        self._numbers: dict[str, int] = {}
        wanted: set[int] = set()
        for question in questions:
            for term in question_terms(question):
                self._numbers.setdefault(term, len(self._numbers))
            wanted.update(self._find_measures(question))
        self._values = {column: array("d") for column in sorted(wanted)}
        self._seen: set[int] = set()
        self._index = SentenceIndex([self._read(row) for row in rows])

    def choose(self, question: str) -> RowChoice:
        """Rank all rows for one of the questions."""
        terms = question_terms(question)
        scores = self._index.scores(" ".join(_code(self._numbers[term]) for term in terms)).round(6)
        column, sign = self._compared(question)
        keys = [np.arange(len(scores)), -scores]
        if column is not None:
            values = np.array(self._values[column]) * sign
            keys.insert(1, np.where(np.isnan(values), np.inf, -values))
        named = frozenset[str]().union(*self._header)
        matches = [term for term in terms if self._numbers[term] in self._seen]
        known = tuple(terms[term] for term in matches if term not in named) or tuple(terms[term] for term in matches)
        name = "" if column is None else f"{'greatest' if sign > 0 else 'least'} {self._names[column]}"
        return RowChoice(question, np.lexsort(keys), int((scores > 0).sum()), known, name, column)

    def _read(self, row: Sequence[str]) -> str:
        """Return the terms of a row that questions have, as one text."""
        for column, values in self._values.items():
            values.append(self._formats[column].read_sortable(row[column]))
        known = self._numbers
        numbers = [known[term] for term in _findable(" \n".join(map(_with_point, row, self._formats))) if term in known]
        self._seen.update(numbers)
        return " ".join(map(_code, numbers))

    def _find_measures(self, question: str) -> list[int]:
        """Return the columns that a question with a superlative may compare by."""
        words = {_singular(term) for term in _terms(question)}
        if not words & (GREATEST | LEAST):
            return []
        return [column for column, name in enumerate(self._header) if name & words - GREATEST - LEAST]

    def _compared(self, question: str) -> tuple[int | None, int]:
        """Return the column that a question compares by, if any, and 1 for the greatest or -1 for the least value."""
        words = set(_terms(question))
        sign = 1 if words & GREATEST else -1
        for column in self._find_measures(question):
            if np.isfinite(self._values[column]).mean() >= NUMERIC_SHARE:
                return column, sign
        return None, sign


def question_terms(question: str) -> dict[str, str]:
    """Return the words and numbers of a question that may tell rows apart, and how it writes them.

    Plurals are looked for without their s, and numbers that are written as words as numbers, too.
    """
    words = {_singular(term): term for term in _terms(question) if term not in EMPTY_WORDS | GREATEST | LEAST}
    values = [value for value in numeric_values(_WITH_DIGITS.sub("", question)) if not isinstance(value, Date)]
    numbers = [_number(f"{value:.6f}") for value in values if np.isfinite(value)]
    return words | {number: number for number in numbers if number not in words}


def matching_shares(question: str, rows: Sequence[Sequence[str]]) -> np.ndarray:
    """Compute for each of C columns the share of rows whose cell has a word or number of the question, [C]."""
    wanted = question_terms(question).keys()
    return np.array([[not wanted.isdisjoint(_findable(cell)) for cell in row] for row in rows]).mean(0)


def fit_rows(order: Iterable[int], costs: Iterable[int], budget: int, most: int) -> list[int]:
    """Take rows, the best first, until the next one exceeds the budget; at least one, back in the table's order.

    `order` has the best place first, `costs` the tokens of each; more than `most` rows cannot be told apart.
    """
    rows: list[int] = []
    for place, cost in zip(order, costs, strict=False):
        budget -= cost
        if rows and (budget < 0 or len(rows) >= most):
            break
        rows.append(int(place))
    return sorted(rows)


def _with_point(text: str, written: ColumnFormat) -> str:
    """Return a cell, and its number as questions write it where the column has decimal commas."""
    number = written.read_number(text) if written.decimal == "," else None
    return text if number is None else f"{text} {abs(number):.6f}"


def _findable(text: str) -> list[str]:
    """Return the terms by which a text is found: without the s of plurals, and dates also by their parts."""
    terms = _terms(text)
    terms += [part for term in terms if "-" in term for part in _parts(term)]
    return [_singular(term) for term in terms]


def _parts(date: str) -> list[str]:
    """Return the year of a date like 2024-03-01, its month by name, and both."""
    month = int(date[5:7])
    return [date[:4], date[:7], *MONTHS[month - 1 : month]]


def _terms(text: str) -> list[str]:
    """Split a text into lower-case words of two or more letters, dates, and numbers without superfluous zeros."""
    return [_number(term) if term[0].isdigit() else term for term in _TERM.findall(text.lower())]


def _number(term: str) -> str:
    if (term.isdecimal() and term[0] != "0") or "-" in term:
        return term
    plain = term.replace(",", "")
    if "." in plain:
        return plain.rstrip("0").rstrip(".").lstrip("0") or "0"
    return plain.lstrip("0") or "0"


def _singular(word: str) -> str:
    """Return a word without the s of a plural."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _code(number: int) -> str:
    return f"t{number}"


class RowRanker(Protocol):
    """Puts the rows of tables in order, the best for a question first."""

    @property
    def digest(self) -> str:
        """Equal for rankers that rank alike."""

    def __call__(self, examples: Sequence[TableExample]) -> Mapping[str, Sequence[int]]:
        """Return the rows of each question's table, from 0, by `example_id`; none of a table that cannot be encoded."""


class RankedRows:
    """The best rows of tables, worked out once for each question."""

    def __init__(self, ranker: RowRanker) -> None:
        self.ranker = ranker
        self._known: dict[tuple[str, str], Sequence[int]] = {}

    def of(self, example: TableExample, count: int) -> tuple[int, ...]:
        """Find the best rows of a question's table, from 0 and in their order there; none where nothing was ranked."""
        self.rank([example])
        return tuple(sorted(self._known[_key(example)][:count]))

    def rank(self, examples: Sequence[TableExample]) -> None:
        """Rank those that are asked about for the first time, together."""
        new = [example for example in examples if _key(example) not in self._known]
        rankings = self.ranker(new) if new else {}
        self._known |= {_key(example): rankings.get(example.example_id, ()) for example in new}


def _key(example: TableExample) -> tuple[str, str]:
    return example.example_id, example.question
