"""A query as Spider takes it apart, with the numbers of a `Schema`.

Numbers of aggregates, operators and units are the places in the tuples below, as in Spider's files.
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
