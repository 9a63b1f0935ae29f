"""Values of the expressions of a synthetic statement, in one small table.

Sets of rows are integers, bit r being row r, so that a table is filtered without a loop over its rows.

Source: google-research/tapas, `utils/synthesize_entablement.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import fsum
from typing import NamedTuple

from mate_cli.tables.supervision import read_tapas_number
from mate_cli.tables.table import Table
from mate_cli.tables.text import is_empty

Values = frozenset[str]
COUNT = "the count"
PLAIN, LOWEST, GREATEST, FIRST, LAST, TOTAL, RANGE, AVERAGE = SELECTS = (
    "{}",
    "the lowest {}",
    "the greatest {}",
    "the first {}",
    "the last {}",
    "the total {}",
    "the range of {}",
    "the average {}",
)
"""How the values of a column may be summed up, in the reference's order, as they are said."""
IS, GREATER, LESS = COMPARATORS = ("is", "is greater than", "is less than")
"""In the reference's order."""
_NOISE = 9
"""Decimals behind which the sum of numbers is rounding noise."""
_EXACT = 2.0**53
"""From here on whole numbers are no longer exact; "nan" and "inf", which the reference counts with, are words here."""


class Filter(NamedTuple):
    """A condition on rows: a column, a comparator and the text of a cell of that column."""

    column: int
    comparator: str
    text: str


class Expression(NamedTuple):
    """A column summed up over the rows where some conditions hold; `COUNT` has no column (-1)."""

    select: str
    column: int
    wheres: tuple[Filter, ...] = ()


def statement_number(number: float) -> str:
    """Write a number as statements do: without decimals when it is whole, else with two."""
    number = round(number, _NOISE)
    return str(int(number)) if number.is_integer() else f"{number:.2f}"


def compare_values(left: Values, right: Values, comparator: str) -> bool | None:
    """Tell if a comparison holds: of the texts for "is", else of all numbers with all; None when some text is none."""
    if comparator == IS:
        return left == right
    numbers, others = _numbers(left), _numbers(right)
    if not numbers or not others:
        return None
    return max(numbers) < min(others) if comparator == LESS else min(numbers) > max(others)


class PartValues:
    """Works out expressions over one small table; what was worked out once is remembered.

    Args:
        table: R rows.
        blanks: also make use of columns without a name, and of cells without a word, as the reference does.
    """

    def __init__(self, table: Table, blanks: bool = False) -> None:
        self.names = [cell.text for cell in table.header]
        self.columns = [[row[c].text for row in table.rows] for c in range(len(self.names))]
        self.rows = (1 << len(table.rows)) - 1
        self.blanks = blanks
        counts = Counter(self.names)
        self.usable = [  # columns with a name of their own
            counts[name] == 1 and (blanks or not is_empty(name)) for name in self.names
        ]
        self._numbers = [[_number(text) for text in texts] for texts in self.columns]
        self._wordy = [_rows_where(numbers, None) for numbers in self._numbers]
        self._values: dict[tuple[str, int, int], Values | None] = {}
        self._filters: dict[Filter, int | None] = {}

    def is_sayable(self, values: Values) -> bool:
        """Tell whether values can stand in a sentence without leaving a hole."""
        return self.blanks or not any(map(is_empty, values))

    def filter_rows(self, rows: int, where: Filter) -> int | None:
        """Return the rows among `rows` where a condition holds; None when it cannot be decided for one of them."""
        if where not in self._filters:
            self._filters[where] = self._filter(where)
        matches = self._filters[where]
        if where.comparator != IS and rows & self._wordy[where.column]:
            return None
        return None if matches is None else rows & matches

    def compute_values(self, select: str, column: int, rows: int) -> Values | None:
        """Sum up the values of a column over a set of rows; None when there are none or it makes no sense."""
        key = select, column, rows
        if key not in self._values:
            self._values[key] = self._select(select, column, rows) if rows else None
        return self._values[key]

    def _filter(self, where: Filter) -> int | None:
        if not self.blanks and is_empty(where.text):
            return None
        if where.comparator == IS:
            return _rows_where(self.columns[where.column], where.text)
        asked = _number(where.text)
        if asked is None:
            return None
        less = where.comparator == LESS
        holds = (n is not None and (n < asked if less else n > asked) for n in self._numbers[where.column])
        return sum(1 << row for row, held in enumerate(holds) if held)

    def _select(self, select: str, column: int, rows: int) -> Values | None:
        places = [row for row in range(rows.bit_length()) if rows >> row & 1]
        if select == COUNT:
            return frozenset((str(len(places)),))
        texts = [self.columns[column][row] for row in places]
        if not self.usable[column]:
            return None
        if select == PLAIN:
            return frozenset(texts)
        if len(texts) < 2:
            return None
        if select in (FIRST, LAST):
            return frozenset((texts[0 if select == FIRST else -1],))
        return None if self._wordy[column] else frozenset((self._summed(select, column, places),))

    def _summed(self, select: str, column: int, places: Sequence[int]) -> str:
        numbers = {row: number for row in places if (number := self._numbers[column][row]) is not None}
        if select in (LOWEST, GREATEST):
            best = min if select == LOWEST else max
            return self.columns[column][best(numbers, key=numbers.__getitem__)]
        if select == RANGE:
            return statement_number(max(numbers.values()) - min(numbers.values()))
        total = fsum(numbers.values())
        return statement_number(total if select == TOTAL else total / len(numbers))


@lru_cache(maxsize=1 << 15)
def _number(text: str) -> float | None:
    number = read_tapas_number(text)
    return number if number is not None and abs(number) < _EXACT else None


def _numbers(texts: Values) -> list[float]:
    """Return the numbers of some texts; none when one of them is no number."""
    numbers = [_number(text) for text in texts]
    known = [number for number in numbers if number is not None]
    return known if len(known) == len(numbers) else []


def _rows_where(values: Sequence[object], wanted: object) -> int:
    return sum(1 << row for row, value in enumerate(values) if value == wanted)
