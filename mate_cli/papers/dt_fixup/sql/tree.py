"""Conversion of queries to actions of the grammar and back, via a tree of productions.

Source: Xu et al. 2021 (DT-Fixup), `spider_transition_system.py` of the released code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from mate_cli.papers.dt_fixup.sql import ir
from mate_cli.papers.dt_fixup.sql.grammar import (
    BY_NAME,
    COLUMN_TYPE,
    PRODUCTIONS,
    REDUCE,
    Action,
    ApplyRule,
    Reduce,
    SelectColumn,
)
from mate_cli.papers.dt_fixup.sql.schema import STAR, Schema

PLACEHOLDER = '"value"'
"""Placeholder of every value, because actions contain no values."""

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


class UnsupportedQueryError(ValueError):
    """Error of a query with a part that the grammar cannot derive."""


class Tree(NamedTuple):
    """Node of the derivation tree of a query: a grammar production, with one child per field.

    A child is a tree, a list of trees, a column, or None for an absent field.
    """

    rule: str
    parts: Sequence[Any] = ()


def oracle_actions(query: ir.Query, schema: Schema) -> tuple[Action, ...]:
    """Find the decoder actions that derive a query, as the target of training.

    Values, DISTINCT and tables are not derived.

    Raises:
        UnsupportedQueryError: the grammar lacks a part of the query.
    """
    if query.following is None:
        return tuple(_actions(Tree("SingleQuery", [_TreeMaker(query, schema).tree()])))
    name, second = query.following
    if second.following:
        raise UnsupportedQueryError("more than one set operator")
    first = replace(query, following=None)
    return tuple(_actions(Tree(name.capitalize(), [_TreeMaker(part, schema).tree() for part in (first, second)])))


def build_query(actions: Sequence[Action], schema: Schema) -> ir.Query:
    """Build the query that a sequence of actions derives.

    Its tables are the tables of its columns. A query without columns uses the first table.
    """
    name, (first, *second) = _build(deque(actions))
    query = _query(first, schema)
    return replace(query, following=(name.lower(), _query(second[0], schema))) if second else query


def _actions(tree: Tree) -> Iterator[Action]:
    """Yield the grammar actions that derive a tree of productions, depth first."""
    yield ApplyRule(BY_NAME[tree.rule].number)
    for field, part in zip(BY_NAME[tree.rule].fields, tree.parts, strict=True):
        if field.type == COLUMN_TYPE:
            yield SelectColumn(part)
            continue
        for child in part if field.count == "*" else [part] if part else []:
            yield from _actions(child)
        if field.count == "*" or not part:
            yield REDUCE


def _build(actions: deque[Action]) -> Tree:
    """Build the next subtree from a queue of actions, and remove these actions from the queue."""
    action = actions.popleft()
    assert isinstance(action, ApplyRule)
    rule = PRODUCTIONS[action.production]
    return Tree(rule.name, [_read_field(field.type, field.count, actions) for field in rule.fields])


def _read_field(kind: str, count: str, actions: deque[Action]) -> Any:  # noqa: ANN401 - see `Tree`
    if kind == COLUMN_TYPE:
        action = actions.popleft()
        assert isinstance(action, SelectColumn)
        return action.column
    parts: list[Tree] = []
    while (count == "*" or not parts) and not isinstance(actions[0], Reduce):
        parts.append(_build(actions))
    if count == "*" or not parts:
        actions.popleft()  # Reduce
    return parts if count == "*" else next(iter(parts), None)


class _TreeMaker:
    """Builder of the derivation tree of one query. Each nested query has a separate builder."""

    def __init__(self, query: ir.Query, schema: Schema) -> None:
        self._query, self._schema = query, schema
        # "*" belongs to the only table, or to no table if there are several. Table n has the star column n.
        tables = query.source.tables
        self._star = tables[0] if len(tables) == 1 else STAR

    def tree(self) -> Tree:
        query = self._query
        if query.following:
            raise UnsupportedQueryError(f"{query.following[0].upper()} in a nested query")
        select = [Tree("SelectCol", [_aggregate(item.aggregate), self._unit(item.unit)]) for item in query.select]
        joins = [self._join(condition) for condition in query.source.joins]
        where, having = (
            Tree(name, [self._conditions(conditions)]) if conditions else None
            for name, conditions in (("Where", query.where), ("Having", query.having))
        )
        order, name = query.order_by, "Order" if query.limit is None else "Superlative"
        order_tree = Tree(name, [Tree(order.direction), [self._unit(unit) for unit in order.units]]) if order else None
        group_tree = Tree("GroupBy", [[self._column(unit) for unit in query.group_by]]) if query.group_by else None
        source = Tree("From", [joins]) if joins else None
        return Tree("Query", [Tree("Select", [select]), source, where, having, order_tree, group_tree])

    def _column(self, unit: ir.ColumnUnit) -> Tree:
        return Tree("ColUnit", [_aggregate(unit.aggregate), self._star if unit.column == STAR else unit.column])

    def _unit(self, unit: ir.ValueUnit) -> Tree:
        sign = ir.UNIT_OPERATORS[unit.operator]
        if sign not in _RULES:
            raise UnsupportedQueryError(f"unsupported operator {sign}")
        return Tree(_RULES[sign], [self._column(column) for column in unit.columns()])

    def _join(self, condition: ir.Condition) -> Tree:
        if not isinstance(condition.value, ir.ColumnUnit):
            raise UnsupportedQueryError("ON compares with a value")
        columns = (self._of_source(unit.column) for unit in (condition.unit.left, condition.value))
        return Tree("FromCond", [self._column(ir.ColumnUnit(0, column)) for column in columns])

    def _of_source(self, column: int) -> int:
        """Return the column if FROM contains its table, else the column of the same name in FROM.

        An alias may lead to a table that FROM does not contain.
        """
        schema_column, tables = self._schema.columns[column], self._query.source.tables
        if schema_column.table in tables:
            return column
        replacement = self._schema.find_column(schema_column.original, tables)
        return column if replacement is None else replacement

    def _conditions(self, conditions: ir.Conditions) -> Tree:
        """Convert SQL conditions to a binary derivation tree, nested to the right.

        It is nested at each "and" and "or".
        """
        *condition_trees, tree = map(self._condition, conditions)
        for condition_tree, connector in reversed([*zip(condition_trees, conditions.connectors, strict=True)]):
            tree = Tree(connector.capitalize(), [condition_tree, tree])
        return tree

    def _condition(self, condition: ir.Condition) -> Tree:
        sign = ir.OPERATORS[condition.operator]
        name, nested = _RULES.get(sign, sign), isinstance(condition.value, ir.Query)
        prefix = "Not" * condition.negated if name in ("In", "Like") else ""
        prefix = "Nested" if nested and name not in ("In", "Between") else prefix
        is_unsupported = condition.negated and prefix != "Not"
        if (
            prefix + name not in BY_NAME
            or is_unsupported
            or (nested and name == "Between")
            or (name == "In" and not nested)
        ):
            raise UnsupportedQueryError(f"{'NOT ' * condition.negated}{sign.upper()} with an unsupported value")
        parts = [self._unit(condition.unit)]
        if isinstance(condition.value, ir.Query):
            parts.append(_TreeMaker(condition.value, self._schema).tree())
        return Tree(prefix + name, parts)


def _aggregate(number: int) -> Tree:
    return Tree(ir.AGGREGATES[number])


def _query(tree: Tree, schema: Schema) -> ir.Query:
    select, source, where, having, order, group = tree.parts

    def column(tree: Tree) -> ir.ColumnUnit:
        aggregate, number = tree.parts
        is_star = schema.columns[number].original == "*"
        return ir.ColumnUnit(ir.AGGREGATES.index(aggregate.rule), STAR if is_star else number)

    def unit(tree: Tree) -> ir.ValueUnit:
        return ir.ValueUnit(ir.UNIT_OPERATORS.index(_UNITS[tree.rule]), *map(column, tree.parts))

    def join(tree: Tree) -> ir.Condition:
        left, right = map(column, tree.parts)
        return ir.Condition(False, ir.OPERATORS.index("="), ir.ValueUnit(0, left), right)

    def condition(tree: Tree) -> ir.Condition:
        name = tree.rule.removeprefix("Nested").removeprefix("Not")
        left, *nested = tree.parts
        return ir.Condition(
            negated=tree.rule.startswith("Not"),
            operator=ir.OPERATORS.index(_COMPARISONS[name]),
            unit=unit(left),
            value=_query(nested[0], schema) if nested else PLACEHOLDER,
            second=PLACEHOLDER if name == "Between" else None,
        )

    def conditions(tree: Tree) -> ir.Conditions:
        if tree.rule not in ("And", "Or"):
            return ir.Conditions((condition(tree),))
        first, tail = map(conditions, tree.parts)
        connectors = (*first.connectors, tree.rule.lower(), *tail.connectors)
        return ir.Conditions((*first.items, *tail.items), connectors)

    joins = tuple(map(join, source.parts[0])) if source else ()
    return ir.Query(
        tuple(ir.SelectItem(ir.AGGREGATES.index(item.parts[0].rule), unit(item.parts[1])) for item in select.parts[0]),
        _source({schema.columns[number].table for number in _columns(tree)}, joins, schema),
        conditions(where.parts[0]) if where else ir.Conditions(),
        tuple(map(column, group.parts[0])) if group else (),
        conditions(having.parts[0]) if having else ir.Conditions(),
        ir.OrderBy(order.parts[0].rule, tuple(map(unit, order.parts[1]))) if order else None,
        1 if order and order.rule == "Superlative" else None,
    )


def _columns(part: Any) -> Iterator[int]:  # noqa: ANN401 - see `Tree`
    """Yield the column numbers in a query, except in nested queries."""
    if isinstance(part, int):
        yield part
    for child in part.parts if isinstance(part, Tree) else part if isinstance(part, list) else ():
        if not (isinstance(child, Tree) and child.rule == "Query"):
            yield from _columns(child)


def _source(tables: set[int], joins: tuple[ir.Condition, ...], schema: Schema) -> ir.From:
    """Build the FROM clause of a query. A table that is joined with itself is listed twice.

    Args:
        tables: numbers of the tables of all columns in the query.
        joins: join conditions.
        schema: schema of the database.
    """
    join_tables = [[schema.columns[unit.column].table for unit in (join.unit.left, join.value)] for join in joins]  # type: ignore[union-attr]
    self_joined = [left for left, right in join_tables if left == right]
    return ir.From((*(sorted(tables - {STAR}) or [1]), *self_joined), ir.Conditions(joins, ("and",) * (len(joins) - 1)))
