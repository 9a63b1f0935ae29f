"""From queries to the actions of the grammar that make them, and back.

Source: Xu et al. 2021 (DT-Fixup), `spider_transition_system.py` of the released code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from mate_cli.papers.dt_fixup.sql import ir
from mate_cli.papers.dt_fixup.sql.grammar import BY_NAME, PRODUCTIONS, REDUCE, Action, ApplyRule, SelectColumn
from mate_cli.papers.dt_fixup.sql.schema import STAR, Schema

PLACEHOLDER = '"value"'
"""Stands for every value, of which actions say nothing."""

_COMPARISONS = {
    "Equal": "=",
    "Greater": ">",
    "GreaterEqual": ">=",
    "Inequal": "!=",
    "Less": "<",
    "LessEqual": "<=",
    "Between": "between",
    "Like": "like",
    "In": "in",
}
_UNITS = {"ValUnit": "none", "ValUnitMinus": "-", "ValUnitPlus": "+"}
_RULES = {sign: name for names in (_COMPARISONS, _UNITS) for name, sign in names.items()}

Part = TypeVar("Part")


class UnsupportedQueryError(ValueError):
    """The grammar has no production for a part of a query; the message says which part."""


def oracle_actions(query: ir.Query, schema: Schema) -> tuple[Action, ...]:
    """Return the actions that make a query, but for its values, its DISTINCT and its tables.

    Raises:
        UnsupportedQueryError: the grammar lacks a part of it.
    """
    maker = _ActionMaker(schema)
    maker.statement(query)
    return tuple(maker.actions)


def build_query(actions: Sequence[Action], schema: Schema) -> ir.Query:
    """Return the query that actions make; its tables are those of its columns, the first one where there are none."""
    return _QueryMaker(actions, schema).statement()


class _ActionMaker:
    """Lists the actions of a query, depth first."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._star = STAR
        self.actions: list[Action] = []

    def _apply(self, *names: str) -> None:
        self.actions += (ApplyRule(BY_NAME[name].number) for name in names)

    def statement(self, query: ir.Query) -> None:
        if query.following is None:
            self._apply("SingleQuery")
            self._query(query)
            return
        name, second = query.following
        if second.following:
            raise UnsupportedQueryError("more than one set operator")
        self._apply(name.capitalize())
        self._query(replace(query, following=None))
        self._query(second)

    def _query(self, query: ir.Query) -> None:
        if query.following:
            raise UnsupportedQueryError(f"{query.following[0].upper()} in a nested query")
        tables = query.source.tables  # "*" is that of the only table that there is, else of none: table n has column n
        outer, self._star = self._star, tables[0] if len(tables) == 1 else STAR
        self._apply("Query", "Select")
        for item in query.select:
            self._apply("SelectCol", ir.AGGREGATES[item.aggregate])
            self._unit(item.unit)
        self.actions.append(REDUCE)
        self._list("From", lambda condition: self._join(condition, query), query.source.joins.items)
        for name, conditions in (("Where", query.where), ("Having", query.having)):
            if conditions:
                self._apply(name)
                self._conditions(conditions)
            else:
                self.actions.append(REDUCE)
        if query.order_by:
            self._apply("Order" if query.limit is None else "Superlative", query.order_by.direction)
            for unit in query.order_by.units:
                self._unit(unit)
        self.actions.append(REDUCE)
        self._list("GroupBy", self._column, query.group_by)
        self._star = outer

    def _list(self, name: str, make: Callable[[Part], None], parts: Sequence[Part]) -> None:
        """Make a clause of several parts; nothing where there are none."""
        if parts:
            self._apply(name)
        for part in parts:
            make(part)
        self.actions.append(REDUCE)

    def _column(self, unit: ir.ColumnUnit) -> None:
        self._apply("ColUnit", ir.AGGREGATES[unit.aggregate])
        self.actions.append(SelectColumn(self._star if unit.column == STAR else unit.column))

    def _unit(self, unit: ir.ValueUnit) -> None:
        sign = ir.UNIT_OPERATORS[unit.operator]
        if sign not in _RULES:
            raise UnsupportedQueryError(f"unsupported operator {sign}")
        self._apply(_RULES[sign])
        for side in unit.columns():
            self._column(side)

    def _join(self, condition: ir.Condition, query: ir.Query) -> None:
        if not isinstance(condition.value, ir.ColumnUnit):
            raise UnsupportedQueryError("ON compares with a value")
        self._apply("FromCond")
        for unit in (condition.unit.left, condition.value):
            self._column(ir.ColumnUnit(0, self._of_source(unit.column, query)))

    def _of_source(self, column: int, query: ir.Query) -> int:
        """Return the column, or the one of the same name where an alias led to a table that FROM does not name."""
        schema_column, tables = self._schema.columns[column], query.source.tables
        if schema_column.table in tables:
            return column
        same = self._schema.find_column(schema_column.original, tables)
        return column if same is None else same

    def _conditions(self, conditions: ir.Conditions) -> None:
        """Make each condition but the last as "and" or "or" joins it with all that follow."""
        *others, last = conditions.items
        for condition, connector in zip(others, conditions.connectors, strict=True):
            self._apply(connector.capitalize())
            self._condition(condition)
        self._condition(last)

    def _condition(self, condition: ir.Condition) -> None:
        sign = ir.OPERATORS[condition.operator]
        name, nested = _RULES.get(sign, sign), isinstance(condition.value, ir.Query)
        prefix = "Not" * condition.negated if name in ("In", "Like") else ""
        prefix = "Nested" if nested and name not in ("In", "Between") else prefix
        wrong = condition.negated and prefix != "Not"
        if prefix + name not in BY_NAME or wrong or (nested and name == "Between") or (name == "In" and not nested):
            raise UnsupportedQueryError(f"{'NOT ' * condition.negated}{sign.upper()} with an unsupported value")
        self._apply(prefix + name)
        self._unit(condition.unit)
        if isinstance(condition.value, ir.Query):
            self._query(condition.value)


class _QueryMaker:
    """Reads the actions of a query, depth first."""

    def __init__(self, actions: Sequence[Action], schema: Schema) -> None:
        self._schema = schema
        self._actions = deque(actions)
        self._chosen: list[int] = []  # columns of the query that is read, without those of queries in it

    def _rule(self) -> str:
        """Return the name of the production that is next; empty for Reduce."""
        action = self._actions.popleft()
        return PRODUCTIONS[action.production].name if isinstance(action, ApplyRule) else ""

    def _list(self, make: Callable[[], Part]) -> tuple[Part, ...]:
        """Return what there is in front of Reduce."""
        parts = []
        while self._actions[0] != REDUCE:
            parts.append(make())
        self._actions.popleft()
        return tuple(parts)

    def statement(self) -> ir.Query:
        name, first = self._rule(), self._query()
        return first if name == "SingleQuery" else replace(first, following=(name.lower(), self._query()))

    def _query(self) -> ir.Query:
        self._rule()  # Query
        self._rule()  # Select
        outer, self._chosen = self._chosen, []
        select = self._list(self._item)
        joins = self._list(self._join) if self._rule() else ()
        where, having = (ir.Conditions(*self._conditions()) if self._rule() else ir.Conditions() for _ in range(2))
        order = self._rule()
        order_by = ir.OrderBy(self._rule(), self._list(self._unit)) if order else None
        group_by = self._list(self._column) if self._rule() else ()
        source = self._source(joins)
        self._chosen = outer
        limit = 1 if order == "Superlative" else None
        return ir.Query(select, source, where, group_by, having, order_by, limit)

    def _source(self, joins: Sequence[ir.Condition]) -> ir.From:
        """List the tables of all columns outside nested queries; a table that joins itself is there once more."""
        tables = {self._schema.columns[column].table for column in self._chosen} - {STAR}
        ends = [[self._schema.columns[unit.column].table for unit in (join.unit.left, join.value)] for join in joins]  # type: ignore[union-attr]
        again = [left for left, right in ends if left == right]
        return ir.From((*(sorted(tables) or [1]), *again), ir.Conditions(tuple(joins), ("and",) * (len(joins) - 1)))

    def _item(self) -> ir.SelectItem:
        self._rule()  # SelectCol
        return ir.SelectItem(ir.AGGREGATES.index(self._rule()), self._unit())

    def _join(self) -> ir.Condition:
        self._rule()  # FromCond
        left, right = self._column(), self._column()
        return ir.Condition(False, ir.OPERATORS.index("="), ir.ValueUnit(0, left), right)

    def _column(self) -> ir.ColumnUnit:
        self._rule()  # ColUnit
        aggregate, action = ir.AGGREGATES.index(self._rule()), self._actions.popleft()
        assert isinstance(action, SelectColumn)
        self._chosen.append(action.column)
        is_star = self._schema.columns[action.column].original == "*"
        return ir.ColumnUnit(aggregate, STAR if is_star else action.column)

    def _unit(self) -> ir.ValueUnit:
        rule = self._rule()
        sides = [self._column() for _ in BY_NAME[rule].fields]
        return ir.ValueUnit(ir.UNIT_OPERATORS.index(_UNITS[rule]), *sides)

    def _conditions(self) -> tuple[tuple[ir.Condition, ...], tuple[str, ...]]:
        rule = self._rule()
        if rule not in ("And", "Or"):
            return (self._condition(rule),), ()
        (first, between), (rest, after) = self._conditions(), self._conditions()
        return (*first, *rest), (*between, rule.lower(), *after)

    def _condition(self, rule: str) -> ir.Condition:
        name = rule.removeprefix("Nested").removeprefix("Not")
        unit = self._unit()
        return ir.Condition(
            negated=rule.startswith("Not"),
            operator=ir.OPERATORS.index(_COMPARISONS[name]),
            unit=unit,
            value=self._query() if len(BY_NAME[rule].fields) > 1 else PLACEHOLDER,
            second=PLACEHOLDER if name == "Between" else None,
        )
