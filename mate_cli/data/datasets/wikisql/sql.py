"""The SQL of WikiSQL: one column, an aggregation of it, and conditions that all hold; run on the rows of a table.

Source: google-research/tapas, `utils/wikisql_utils.py`. The authors' own engine (salesforce/WikiSQL,
`lib/dbengine.py`) compares texts whole instead of word by word, and gives MAX and MIN as values instead of cells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import eq, gt, lt
from typing import Any

from mate_cli.tables.example import AGGREGATIONS, Answer, Coordinates
from mate_cli.tables.numbers import convert_to_float

SQL_AGGREGATIONS = ("", "MAX", "MIN", "COUNT", "SUM", "AVG")
"""The place is the number in the files."""
OPERATORS = ("=", ">", "<")
"""The place is the number in the files."""
TYPES = ("text", "real")

Value = str | float

_COMPARISONS: tuple[Callable[[Any, Any], bool], ...] = (eq, gt, lt)
_NAMES = {"COUNT": "count", "SUM": "sum", "AVG": "average"}
_WORDS = re.compile(r"\w+|[^\w\s]+")


@dataclass(frozen=True, slots=True)
class WikiSQLCondition:
    """Condition on rows: a column (from 0), the place of an operator in `OPERATORS`, and a value."""

    column: int
    operator: int
    value: Value


@dataclass(frozen=True, slots=True)
class WikiSQLQuery:
    """One query: a column (from 0), the place of an aggregation in `SQL_AGGREGATIONS`, and conditions."""

    column: int
    aggregation: int
    conditions: tuple[WikiSQLCondition, ...] = ()

    @classmethod
    def parse(cls, sql: Any, types: Sequence[str]) -> WikiSQLQuery:  # noqa: ANN401 - what JSON holds
        """Read the query of a question: {"sel": column, "agg": aggregation, "conds": [[column, operator, value]]}.

        Raises:
            ValueError: it is no query about such a table; says why.
        """
        try:
            conditions = tuple(WikiSQLCondition(*condition) for condition in sql["conds"])
            query = cls(sql["sel"], sql["agg"], conditions)
        except (KeyError, TypeError) as error:
            raise ValueError("sql should hold sel, agg and conds, a list of [column, operator, value]") from error
        columns = [query.column, *(condition.column for condition in conditions)]
        if not all(_is_place(column, types) for column in columns):
            raise ValueError(f"sql names a column that does not exist (the table has {len(types)})")
        if not _is_place(query.aggregation, SQL_AGGREGATIONS):
            raise ValueError(f"sql has no aggregation {query.aggregation!r}")
        if not all(_is_place(condition.operator, OPERATORS) for condition in conditions):
            raise ValueError("sql has an operator other than =, > and <")
        if not all(isinstance(condition.value, str | int | float) for condition in conditions):
            raise ValueError("sql compares with a value that is neither text nor a number")
        return query


def _is_place(place: object, items: Sequence[Any]) -> bool:
    return type(place) is int and 0 <= place < len(items)


def execute_sql(query: WikiSQLQuery, rows: Sequence[Sequence[str]], types: Sequence[str]) -> Answer:
    """Run a query: the cells that it selects, what it does with them, and the answer as texts and as a number.

    MAX and MIN select their cell: the last one of several equal for MAX, the first one for MIN. Texts are equal when
    their words and signs are, whatever the case and spacing. A number is known where the result is one; an empty
    result of anything but a count is the number that is none (NaN).
    `types` are "text" or "real" (a number), of each column.

    Raises:
        ValueError: a value of a condition, or a cell that is to be counted with, is not of its column's type.
        OverflowError: a value of a condition is too large a number.
    """
    fitting = (
        row
        for row, texts in enumerate(rows)
        if all(_holds(texts[condition.column], condition, types[condition.column]) for condition in query.conditions)
    )
    cells = tuple((row, query.column) for row in fitting)
    name = SQL_AGGREGATIONS[query.aggregation]
    values = [_typed(rows[row][column], types[column]) for row, column in cells]
    if name in ("MAX", "MIN") and len(cells) > 1:
        cells, values = _extreme(cells, values, name)
    aggregation = _NAMES.get(name, AGGREGATIONS[0])
    number = _number(aggregation, values)
    texts = (str(number),) if number is not None else tuple(rows[row][column] for row, column in cells)
    return Answer(texts, cells, aggregation=aggregation, number=number)


def _holds(text: str, condition: WikiSQLCondition, kind: str) -> bool:
    wanted, cell = _wanted(condition.value, kind), _typed(text, kind)
    if isinstance(wanted, str) and isinstance(cell, str):
        return _COMPARISONS[condition.operator](_words(cell), _words(wanted))
    if isinstance(cell, str) and kind == "real":
        return False  # a remark where a number belongs
    return _COMPARISONS[condition.operator](cell, wanted)


def _wanted(value: Value, kind: str) -> Value:
    if kind == "real":
        return convert_to_float(value) if isinstance(value, str) else float(value)
    if not isinstance(value, str):
        raise ValueError(f"a condition compares text with the number {value!r}")
    return value


def _typed(text: str, kind: str) -> Value:
    """Return a cell's value: a number in a column of numbers, unless it is none."""
    if kind != "real":
        return text
    try:
        return convert_to_float(text)
    except ValueError:
        return text


def _words(text: str) -> list[str]:
    return _WORDS.findall(text.lower())


def _extreme(cells: Coordinates, values: Sequence[Value], name: str) -> tuple[Coordinates, list[Value]]:
    choose: Callable[..., Any] = max if name == "MAX" else min
    numbers = [value for value in values if not isinstance(value, str)]
    pairs = [(value, place) for place, value in enumerate(values) if not numbers or not isinstance(value, str)]
    _, place = choose(pairs)
    return (cells[place],), [values[place]]


def _number(aggregation: str, values: Sequence[Value]) -> float | None:
    """Return the result as one number; None where it is texts.

    Raises:
        ValueError: a single value that should be added up is no number.
    """
    if aggregation == "count":
        return float(len(values))
    if not values:
        return float("nan")
    if len(values) == 1:
        try:
            return convert_to_float(values[0]) if isinstance(values[0], str) else values[0]
        except ValueError:
            if aggregation != AGGREGATIONS[0]:
                raise
    if aggregation == AGGREGATIONS[0] or any(isinstance(value, str) for value in values):
        return None
    total = float(sum(values))  # type: ignore[arg-type]  # no texts are left
    return total / len(values) if aggregation == "average" else total
