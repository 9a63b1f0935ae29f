"""A query as Spider takes it apart, with the numbers of a `Schema`.

Numbers of aggregates, operators and units are the places in the tuples below, as in Spider's files.
Source: taoyds/spider, `process_sql.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mate_cli.papers.dt_fixup.sql.schema import STAR, Schema

AGGREGATES = ("none", "max", "min", "count", "sum", "avg")
UNIT_OPERATORS = ("none", "-", "+", "*", "/")
OPERATORS = ("not", "between", "=", ">", "<", ">=", "<=", "!=", "in", "like", "is", "exists")
DIRECTIONS = ("asc", "desc")
SET_OPERATORS = ("intersect", "union", "except")
MAX_CONDITIONS = 100
"""Conditions of a clause at most."""
MAX_NESTING = 20
"""Queries in each other, or joined by set operators."""


@dataclass(frozen=True, slots=True)
class ColumnUnit:
    """A column, perhaps aggregated: max(DISTINCT column).

    Args:
        aggregate: a place in `AGGREGATES`.
        column: its number.
        distinct: each value counts once.
        place: of the table in FROM that it is of, from 0; None for the only one. Queries are compared without it.
    """

    aggregate: int
    column: int
    distinct: bool = False
    place: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ValueUnit:
    """A column, or two that an operator of `UNIT_OPERATORS` joins."""

    operator: int
    left: ColumnUnit
    right: ColumnUnit | None = None

    def columns(self) -> tuple[ColumnUnit, ...]:
        """Return both sides, or the one that there is."""
        return (self.left,) if self.right is None else (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition on a row or group.

    Args:
        negated: NOT stands before the operator.
        operator: a place in `OPERATORS`.
        unit: what is compared.
        value: what it is compared with; None where nobody says.
        second: the upper end of BETWEEN.
    """

    negated: bool
    operator: int
    unit: ValueUnit
    value: Value
    second: Value = None


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions one after the other, with "and" or "or" between them; false where there are none."""

    items: tuple[Condition, ...] = ()
    connectors: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Condition]:
        return iter(self.items)


@dataclass(frozen=True, slots=True)
class From:
    """Source of rows: numbers of tables and queries, in the order in which they are named, and their joins."""

    units: tuple[int | Query, ...] = ()
    joins: Conditions = Conditions()

    @property
    def tables(self) -> tuple[int, ...]:
        """The tables among the units."""
        return tuple(unit for unit in self.units if isinstance(unit, int))


@dataclass(frozen=True, slots=True)
class SelectItem:
    """A column of the result: a place in `AGGREGATES`, and what is aggregated."""

    aggregate: int
    unit: ValueUnit


@dataclass(frozen=True, slots=True)
class OrderBy:
    """Order of the result: "asc" or "desc", and by what."""

    direction: str
    units: tuple[ValueUnit, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """One query.

    Args:
        limit: how many rows are kept; None for all.
        following: a set operator, and the query that it joins to this one.
    """

    select: tuple[SelectItem, ...]
    source: From = From()
    where: Conditions = Conditions()
    group_by: tuple[ColumnUnit, ...] = ()
    having: Conditions = Conditions()
    order_by: OrderBy | None = None
    limit: int | None = None
    distinct: bool = False
    following: tuple[str, Query] | None = None


Value = int | float | str | ColumnUnit | Query | None
MAX_INTEGER = 2**63
"""SQLite's integers are smaller; a larger number is a float."""


def query_from_dict(entry: Mapping[str, Any], schema: Schema) -> Query:
    """Read the field `sql` of an example of Spider.

    Its columns are numbered without those that are written "*", but for one.

    Raises:
        ValueError: it is not in that layout; says why.
    """
    try:
        return _FromDict(schema).query(entry)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"sql is not in the layout of Spider ({error!r})") from error


class _FromDict:
    def __init__(self, schema: Schema) -> None:
        self._columns, self._tables = len(schema.columns), len(schema.tables)
        self._depth = 0

    def query(self, entry: Mapping[str, Any]) -> Query:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise ValueError(f"sql has more than {MAX_NESTING} nested queries")
        query = self._single(entry)
        self._depth -= 1
        return query

    def _single(self, entry: Mapping[str, Any]) -> Query:
        distinct, items = entry["select"]
        units, joins = entry["from"]["table_units"], entry["from"]["conds"]
        joined = [(operator, self.query(entry[operator])) for operator in SET_OPERATORS if entry[operator]]
        return Query(
            select=tuple(SelectItem(_place(aggregate, AGGREGATES), self._unit(unit)) for aggregate, unit in items),
            source=From(tuple(self._source(kind, unit) for kind, unit in units), self._conditions(joins)),
            where=self._conditions(entry["where"]),
            group_by=tuple(map(self._column, entry["groupBy"])),
            having=self._conditions(entry["having"]),
            order_by=self._order(entry["orderBy"]),
            limit=self._limit(entry["limit"]),
            distinct=_flag(distinct),
            following=joined[0] if joined else None,
        )

    def _limit(self, value: Any) -> int | None:  # noqa: ANN401 - what JSON holds
        if value is None or (type(value) is int and abs(value) < MAX_INTEGER):
            return value
        raise ValueError(f"sql has LIMIT {value!r}")

    def _source(self, kind: str, unit: Any) -> int | Query:  # noqa: ANN401 - what JSON holds
        if kind == "sql":
            return self.query(unit)
        if kind != "table_unit":
            raise ValueError(f"sql is from {kind!r}, not from a table_unit or sql")
        if type(unit) is not int or not 0 <= unit < self._tables - 1:
            raise ValueError(f"sql names table {unit!r}, which does not exist")
        return unit + 1

    def _column(self, entry: Sequence[Any]) -> ColumnUnit:
        aggregate, column, distinct = entry
        if type(column) is not int or not 0 <= column <= self._columns - self._tables:
            raise ValueError(f"sql names column {column!r}, which does not exist")
        return ColumnUnit(_place(aggregate, AGGREGATES), column + self._tables - 1 if column else STAR, _flag(distinct))

    def _unit(self, entry: Sequence[Any]) -> ValueUnit:
        operator, left, right = entry
        return ValueUnit(_place(operator, UNIT_OPERATORS), self._column(left), self._column(right) if right else None)

    def _conditions(self, entries: Sequence[Any]) -> Conditions:
        items, connectors = entries[::2], entries[1::2]
        if len(items) > MAX_CONDITIONS:
            raise ValueError(f"sql has a clause of more than {MAX_CONDITIONS} conditions")
        if len(connectors) != max(0, len(items) - 1) or not {*connectors} <= {"and", "or"}:
            raise ValueError("sql has conditions not joined by and or or")
        return Conditions(tuple(map(self._condition, items)), tuple(connectors))

    def _condition(self, entry: Sequence[Any]) -> Condition:
        negated, operator, unit, value, second = entry
        place = _place(operator, OPERATORS)
        return Condition(_flag(negated), place, self._unit(unit), self._value(value), self._value(second))

    def _value(self, value: Any) -> Value:  # noqa: ANN401 - what JSON holds
        if isinstance(value, dict):
            return self.query(value)
        if isinstance(value, list | tuple):
            return self._column(value)
        if isinstance(value, float) and abs(value) < MAX_INTEGER and value.is_integer():
            return int(value)  # the files have 20.0 for 20
        if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        raise ValueError(f"a condition compares with {value!r}")

    def _order(self, entry: Sequence[Any]) -> OrderBy | None:
        if entry and entry[0] not in DIRECTIONS:
            raise ValueError(f"sql is ordered {entry[0]!r}")
        return OrderBy(entry[0], tuple(map(self._unit, entry[1]))) if entry else None


def _flag(value: Any) -> bool:  # noqa: ANN401 - what JSON holds
    if not isinstance(value, bool):
        raise ValueError(f"sql has {value!r} in place of true or false")
    return value


def _place(number: Any, names: Sequence[str]) -> int:  # noqa: ANN401 - what JSON holds
    if type(number) is not int or not 0 <= number < len(names):
        raise ValueError(f"sql has number {number!r}, of {len(names)}: {', '.join(names)}")
    return number
