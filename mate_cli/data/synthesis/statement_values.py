"""Evaluation of expressions of synthetic statements, such as "the total Points when Team is Red", in a small table.

Sets of rows are integers in which bit r stands for row r, so that sets are intersected without a loop over rows.

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
"""Aggregations of a column as text, in the order of the reference implementation."""
IS, GREATER, LESS = COMPARATORS = ("is", "is greater than", "is less than")
"""Comparators as text, in the order of the reference implementation."""
_NOISE = 9
"""Number of decimals after which a sum of numbers is rounding noise."""
_EXACT = 2.0**53
"""Bound from which integers are not exact. The bound also rejects "nan" and "inf", which the reference implementation
reads as numbers."""


class Filter(NamedTuple):
    """Condition that selects table rows, such as "year is greater than 2000"."""

    column: int
    comparator: str
    text: str


class Expression(NamedTuple):
    """Aggregation of a column over the rows that satisfy all conditions.

    Args:
        select: aggregation, one of `SELECTS` or `COUNT`.
        column: index of the column, -1 for `COUNT`.
        wheres: conditions on the rows.
    """

    select: str
    column: int
    wheres: tuple[Filter, ...] = ()


def statement_number(number: float) -> str:
    """Format a number for a generated statement: an integer, or two decimals."""
    number = round(number, _NOISE)
    return str(int(number)) if number.is_integer() else f"{number:.2f}"


def compare_values(first: Values, second: Values, comparator: str) -> bool | None:
    """Return whether two values satisfy a comparison such as "is greater than".

    Args:
        first: values of the left side.
        second: values of the right side.
        comparator: `IS` compares the sets of texts. `GREATER` and `LESS` compare every number with every number.

    Returns:
        None if the comparator needs numbers and a text is not a number.
    """
    if comparator == IS:
        return first == second
    left_numbers, right_numbers = _numbers(first), _numbers(second)
    if not left_numbers or not right_numbers:
        return None
    return max(left_numbers) < min(right_numbers) if comparator == LESS else min(left_numbers) > max(right_numbers)


class PartValues:
    """Evaluator of aggregations and conditions on one small table, with a cache.

    Args:
        table: table of R rows.
        blanks: whether to use unnamed columns and empty cells, as the reference implementation does.
    """

    def __init__(self, table: Table, blanks: bool = False) -> None:
        self.names = [cell.text for cell in table.header]
        self.columns = [[row[c].text for row in table.rows] for c in range(len(self.names))]
        self.rows = (1 << len(table.rows)) - 1
        self.blanks = blanks
        counts = Counter(self.names)
        # A usable column has a unique name.
        self.usable = [counts[name] == 1 and (blanks or not is_empty(name)) for name in self.names]
        self._numbers = [[_number(text) for text in texts] for texts in self.columns]
        self._wordy = [_rows_where(numbers, None) for numbers in self._numbers]
        self._values: dict[tuple[str, int, int], Values | None] = {}
        self._filters: dict[Filter, int | None] = {}

    def is_sayable(self, values: Values) -> bool:
        """Return whether a generated sentence can contain the values, which must not be empty.

        With `blanks`, a sentence can contain empty texts too.
        """
        return self.blanks or not any(map(is_empty, values))

    def filter_rows(self, rows: int, clause: Filter) -> int | None:
        """Return the rows among `rows` (a bit mask of indices) that satisfy a condition.

        Return None if it cannot be decided for one of the rows, such as "is less than" for a text.
        """
        if clause not in self._filters:
            self._filters[clause] = self._filter(clause)
        matches = self._filters[clause]
        if clause.comparator != IS and rows & self._wordy[clause.column]:
            return None
        return None if matches is None else rows & matches

    def compute_values(self, select: str, column: int, rows: int) -> Values | None:
        """Compute an aggregation of a column over a set of rows, such as its total.

        Args:
            select: aggregation, one of `SELECTS` or `COUNT`.
            column: index of the column, -1 for `COUNT`.
            rows: set of rows.

        Returns:
            The values, or None if there are no rows or the aggregation is undefined.
        """
        key = select, column, rows
        if key not in self._values:
            self._values[key] = self._select(select, column, rows) if rows else None
        return self._values[key]

    def _filter(self, clause: Filter) -> int | None:
        if not self.blanks and is_empty(clause.text):
            return None
        if clause.comparator == IS:
            return _rows_where(self.columns[clause.column], clause.text)
        threshold = _number(clause.text)
        if threshold is None:
            return None
        is_less = clause.comparator == LESS
        holds = (n is not None and (n < threshold if is_less else n > threshold) for n in self._numbers[clause.column])
        return sum(1 << row for row, matches in enumerate(holds) if matches)

    def _select(self, select: str, column: int, rows: int) -> Values | None:
        row_indices = [row for row in range(rows.bit_length()) if rows >> row & 1]
        if select == COUNT:
            return frozenset((str(len(row_indices)),))
        texts = [self.columns[column][row] for row in row_indices]
        if not self.usable[column]:
            return None
        if select == PLAIN:
            return frozenset(texts)
        if len(texts) < 2:
            return None
        if select in (FIRST, LAST):
            return frozenset((texts[0 if select == FIRST else -1],))
        return None if self._wordy[column] else frozenset((self._summed(select, column, row_indices),))

    def _summed(self, select: str, column: int, row_indices: Sequence[int]) -> str:
        numbers = {row: number for row in row_indices if (number := self._numbers[column][row]) is not None}
        if select in (LOWEST, GREATEST):
            select_best = min if select == LOWEST else max
            return self.columns[column][select_best(numbers, key=numbers.__getitem__)]
        if select == RANGE:
            return statement_number(max(numbers.values()) - min(numbers.values()))
        total = fsum(numbers.values())
        return statement_number(total if select == TOTAL else total / len(numbers))


@lru_cache(maxsize=1 << 15)
def _number(text: str) -> float | None:
    number = read_tapas_number(text)
    return number if number is not None and abs(number) < _EXACT else None


def _numbers(texts: Values) -> list[float]:
    """Convert texts to numbers, or return [] if any text is not a number."""
    numbers = [_number(text) for text in texts]
    valid_numbers = [number for number in numbers if number is not None]
    return valid_numbers if len(valid_numbers) == len(numbers) else []


def _rows_where(values: Sequence[object], target: object) -> int:
    return sum(1 << row for row, value in enumerate(values) if value == target)
