"""A parsed query in Spider's format, with table and column numbers of a `Schema`.

Numbers of aggregates, operators and units are indices in the tuples below, as in Spider's files.
Source: taoyds/spider, `process_sql.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

AGGREGATES = ("none", "max", "min", "count", "sum", "avg")
UNIT_OPERATORS = ("none", "-", "+", "*", "/")
OPERATORS = ("not", "between", "=", ">", "<", ">=", "<=", "!=", "in", "like", "is", "exists")
DIRECTIONS = ("asc", "desc")
SET_OPERATORS = ("intersect", "union", "except")
MAX_CONDITIONS = 100
"""Maximum number of conditions per clause."""
MAX_NESTING = 20
"""Maximum number of queries that are nested or joined by set operators."""


@dataclass(frozen=True, slots=True)
class ColumnUnit:
    """A column in a query, optionally with an aggregate function, such as max(DISTINCT age).

    Args:
        aggregate: index in `AGGREGATES`.
        column: number of the column.
        distinct: if true, each value is used once.
        place: position of its table in FROM, from 0. None: FROM has only one table. Comparisons ignore it.
    """

    aggregate: int
    column: int
    distinct: bool = False
    place: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ValueUnit:
    """An operand in a query: a column, or two columns joined by an arithmetic operator.

    Args:
        operator: index in `UNIT_OPERATORS`.
        left: the column, or the left operand.
        right: the right operand, None for a single column.
    """

    operator: int
    left: ColumnUnit
    right: ColumnUnit | None = None

    def columns(self) -> tuple[ColumnUnit, ...]:
        """Return the columns of the operand: the left column, and the right column if any."""
        return (self.left,) if self.right is None else (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a WHERE, HAVING or ON clause.

    Args:
        negated: true if NOT precedes the operator.
        operator: index in `OPERATORS`.
        unit: left operand.
        value: right operand; None if unknown.
        second: upper bound of BETWEEN.
    """

    negated: bool
    operator: int
    unit: ValueUnit
    value: Value
    second: Value = None


@dataclass(frozen=True, slots=True)
class Conditions:
    """A flat list of SQL conditions joined by AND and OR. An empty list is falsy.

    Args:
        items: N conditions, in the order of the text.
        connectors: N - 1 connectors "and" or "or" between the conditions.
    """

    items: tuple[Condition, ...] = ()
    connectors: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Condition]:
        return iter(self.items)


@dataclass(frozen=True, slots=True)
class From:
    """The FROM clause of a query: tables, nested queries and join conditions.

    Args:
        units: numbers of tables, and nested queries, in the order of the text.
        joins: join conditions of all ON clauses.
    """

    units: tuple[int | Query, ...] = ()
    joins: Conditions = Conditions()

    @property
    def tables(self) -> tuple[int, ...]:
        """Numbers of the tables in FROM, without nested queries."""
        return tuple(unit for unit in self.units if isinstance(unit, int))


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One result column of a SELECT clause.

    Args:
        aggregate: index in `AGGREGATES`.
        unit: the aggregated operand.
    """

    aggregate: int
    unit: ValueUnit


@dataclass(frozen=True, slots=True)
class OrderBy:
    """The ORDER BY clause of a query.

    Args:
        direction: "asc" or "desc".
        units: sort keys.
    """

    direction: str
    units: tuple[ValueUnit, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """An SQL query in the representation of Spider's evaluation script.

    Args:
        select: result columns.
        source: tables and join conditions of FROM.
        where: conditions on rows.
        group_by: columns of GROUP BY.
        having: conditions on groups.
        order_by: order of the result, None if unspecified.
        limit: maximum number of rows, None for all rows.
        distinct: whether SELECT DISTINCT removes duplicate rows.
        following: set operator and the query that it joins to this query, None if there is none.
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
"""Exclusive upper bound of SQLite's integers. A larger number is a float."""
