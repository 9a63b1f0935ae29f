"""Selection of the rows of a long table that are relevant to a question.

The table is read in one pass with little memory.

Rows are ranked by the TF-IDF similarity of their words and numbers to the question. Rows with equal similarity are
ordered by the greatest (or least) value of a column if the question has a superlative, then by table order. A finished
run may rank the rows instead.
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
_LOWEST = "least lowest smallest fewest minimum min worst earliest first oldest shortest cheapest"
_EMPTY = (
    "the and for with from what which who whom whose when where how many much did does was were are has have had that "
    "this there than more less not all any each per is in of on at to by be do an or it as no row rows table"
)
GREATEST, LOWEST, EMPTY_WORDS = (frozenset(words.split()) for words in (_GREATEST, _LOWEST, _EMPTY))
"""Words of superlatives, and stop words, which do not distinguish rows. Single letters are never words."""
NUMERIC_SHARE = 0.5
"""Minimum share of numbers or dates among the cells of a column whose values a superlative may compare."""
_MONTHS = "january february march april may june july august september october november december"
MONTHS = tuple(_MONTHS.split())
_TERM = re.compile(r"\d{4}-\d\d(?:-\d\d)?\b|\d[\d,]*(?:\.\d+)?|[^\W\d_]\w+")
_WITH_DIGITS = re.compile(r"\S*\d\S*")


@dataclass(frozen=True)
class RowChoice:
    """Order of the rows of a table by relevance to one question.

    Args:
        question: the original question.
        order: 0-based indices of all R rows, best first, [R].
        match_count: number of rows that share a word or number with the question. These rows come first.
        terms: words and numbers of the question that occur in the table, without the names of columns. If only names
            of columns occur, these are the terms.
        extreme: superlative that orders rows of equal similarity, such as "greatest sales". Empty if there is none.
        column: index of the column that the superlative compares.
    """

    question: str
    order: np.ndarray
    match_count: int
    terms: tuple[str, ...]
    extreme: str = ""
    column: int | None = None


class RowIndex:
    """Ranks the rows of a table for a fixed set of questions.

    Of each row only the terms and values that these questions need are stored.

    Args:
        header: names of the C columns.
        formats: number format of each column.
        questions: questions that may be passed to `choose`.
        rows: rows of C cells, read once.
    """

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
        compared_columns: set[int] = set()
        for question in questions:
            for term in question_terms(question):
                self._numbers.setdefault(term, len(self._numbers))
            compared_columns.update(self._find_measures(question))
        self._values = {column: array("d") for column in sorted(compared_columns)}
        self._row_terms: set[int] = set()
        self._index = SentenceIndex([self._scan_row(row) for row in rows])

    def choose(self, question: str) -> RowChoice:
        """Rank all rows of the table by relevance to one of the questions passed to the constructor."""
        terms = question_terms(question)
        scores = self._index.scores(" ".join(_code(self._numbers[term]) for term in terms)).round(6)
        column, sign = self._find_extreme(question)
        keys = [np.arange(len(scores)), -scores]
        if column is not None:
            values = np.array(self._values[column]) * sign
            keys.insert(1, np.where(np.isnan(values), np.inf, -values))
        header_terms = frozenset[str]().union(*self._header)
        matches = [term for term in terms if self._numbers[term] in self._row_terms]
        named_terms = [term for term in matches if term not in header_terms] or matches
        row_terms = tuple(terms[term] for term in named_terms)
        name = "" if column is None else f"{'greatest' if sign > 0 else 'least'} {self._names[column]}"
        return RowChoice(question, np.lexsort(keys), int((scores > 0).sum()), row_terms, name, column)

    def _scan_row(self, row: Sequence[str]) -> str:
        """Index one table row: store its sortable values, and return its question terms.

        The terms are encoded as text.
        """
        for column, values in self._values.items():
            values.append(self._formats[column].read_sortable(row[column]))
        terms = _findable(" \n".join(map(_with_point, row, self._formats)))
        numbers = [self._numbers[term] for term in terms if term in self._numbers]
        self._row_terms.update(numbers)
        return " ".join(map(_code, numbers))

    def _find_measures(self, question: str) -> list[int]:
        """Return the indices of columns that a question with a superlative may compare, such as "most sales".

        These are the columns whose name shares a word with the question. Questions without a superlative have none.
        """
        words = {_singular(term) for term in _terms(question)}
        if not words & (GREATEST | LOWEST):
            return []
        return [column for column, name in enumerate(self._header) if name & words - GREATEST - LOWEST]

    def _find_extreme(self, question: str) -> tuple[int | None, int]:
        """Interpret the superlative of a question as the greatest or least value of a column.

        Returns:
            The index of the column, or None for no such column, and 1 for the greatest or -1 for the least value.
        """
        words = set(_terms(question))
        sign = 1 if words & GREATEST else -1
        for column in self._find_measures(question):
            if np.isfinite(self._values[column]).mean() >= NUMERIC_SHARE:
                return column, sign
        return None, sign


def question_terms(question: str) -> dict[str, str]:
    """Return the words and numbers of a question that may distinguish rows.

    Each normalized term maps to its spelling in the question. Plurals lose their final s. A number spelled as a word
    also appears as digits.
    """
    words = {_singular(term): term for term in _terms(question) if term not in EMPTY_WORDS | GREATEST | LOWEST}
    values = [value for value in numeric_values(_WITH_DIGITS.sub("", question)) if not isinstance(value, Date)]
    numbers = [_number(f"{value:.6f}") for value in values if np.isfinite(value)]
    return words | {number: number for number in numbers if number not in words}


def matching_shares(question: str, rows: Sequence[Sequence[str]]) -> np.ndarray:
    """Return for each of C columns the share of cells with a word or number of the question, [C]."""
    terms = question_terms(question).keys()
    return np.array([[not terms.isdisjoint(_findable(cell)) for cell in row] for row in rows]).mean(0)


def fit_rows(order: Iterable[int], costs: Iterable[int], budget: int, limit: int) -> list[int]:
    """Select the best rows until the next row exceeds the token budget, and return their indices in table order.

    The best row is always selected.

    Args:
        order: row indices, best first.
        costs: number of tokens of each row, in the order of `order`.
        budget: maximum number of tokens.
        limit: maximum number of rows, given by the number of row ids.
    """
    rows: list[int] = []
    for row, cost in zip(order, costs, strict=False):
        budget -= cost
        if rows and (budget < 0 or len(rows) >= limit):
            break
        rows.append(int(row))
    return sorted(rows)


def _with_point(text: str, column_format: ColumnFormat) -> str:
    """Return the text of a cell, with its number appended if the column has decimal commas.

    The appended number has a decimal point, as in questions.
    """
    number = column_format.read_number(text) if column_format.decimal == "," else None
    return text if number is None else f"{text} {abs(number):.6f}"


def _findable(text: str) -> list[str]:
    """Return the words, numbers and dates of a cell in the form in which questions are compared with cells.

    Plurals lose their final s, and dates also yield their parts.
    """
    terms = _terms(text)
    terms += [part for term in terms if "-" in term for part in _parts(term)]
    return [_singular(term) for term in terms]


def _parts(date: str) -> list[str]:
    """Return the year, the year with month, and the month name of a date like 2024-03-01."""
    month = int(date[5:7])
    return [date[:4], date[:7], *MONTHS[month - 1 : month]]


def _terms(text: str) -> list[str]:
    """Split a text into lower-case words, dates and normalized numbers.

    Words have two or more letters, and numbers no superfluous zeros.
    """
    return [_number(term) if term[0].isdigit() else term for term in _TERM.findall(text.lower())]


def _number(term: str) -> str:
    if (term.isdecimal() and term[0] != "0") or "-" in term:
        return term
    digits = term.replace(",", "")
    if "." in digits:
        return digits.rstrip("0").rstrip(".").lstrip("0") or "0"
    return digits.lstrip("0") or "0"


def _singular(word: str) -> str:
    """Remove the final s of a word of more than three letters, unless it ends with ss."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _code(number: int) -> str:
    return f"t{number}"


class RowRanker(Protocol):
    """Ranks the rows of tables by their relevance to a question."""

    @property
    def digest(self) -> str:
        """Hash of the ranking model and its options, which is part of the cache key of encodings.

        Equal for equal rankings.
        """

    def __call__(self, examples: Sequence[TableExample]) -> Mapping[str, Sequence[int]]:
        """Return 0-based row indices of each example's table, best first, by `example_id`.

        A table that cannot be encoded has no entry.
        """


class RankedRows:
    """Cache of the row rankings of a `RowRanker`, so that each question is ranked once."""

    def __init__(self, ranker: RowRanker) -> None:
        self.ranker = ranker
        self._rankings: dict[tuple[str, str], Sequence[int]] = {}

    def select(self, example: TableExample, count: int) -> tuple[int, ...]:
        """Return the indices of the `count` best rows of an example's table, in table order, from 0.

        Return () if the ranker has no ranking because it cannot encode the table.
        """
        self.rank([example])
        return tuple(sorted(self._rankings[_key(example)][:count]))

    def rank(self, examples: Sequence[TableExample]) -> None:
        """Rank the rows of all examples that are not cached yet, in one call of the ranker."""
        unranked = [example for example in examples if _key(example) not in self._rankings]
        rankings = self.ranker(unranked) if unranked else {}
        self._rankings |= {_key(example): rankings.get(example.example_id, ()) for example in unranked}


def _key(example: TableExample) -> tuple[str, str]:
    return example.example_id, example.question
