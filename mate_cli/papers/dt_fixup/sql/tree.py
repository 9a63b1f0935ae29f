"""Actions and queries: each of the two as a tree of productions.

Source: Xu et al. 2021 (DT-Fixup), `spider_transition_system.py` of the released code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mate_cli.papers.dt_fixup.sql import ir
from mate_cli.papers.dt_fixup.sql.derivation import REDUCE, Action, ApplyRule, Reduce, SelectColumn
from mate_cli.papers.dt_fixup.sql.grammar import BY_NAME, COLUMN_TYPE, PRODUCTIONS, Production
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
_UNITS = {"none": "ValUnit", "-": "ValUnitMinus", "+": "ValUnitPlus"}


class UnsupportedQueryError(ValueError):
    """The grammar has no production for a part of a query; the message says which part."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A production and what its fields hold: a node, a column, None where it is absent, or several nodes."""

    rule: Production
    parts: tuple[_Part, ...] = ()

    def node(self, place: int) -> _Node:
        part = self.parts[place]
        assert isinstance(part, _Node)
        return part

    def nodes(self, place: int) -> tuple[_Node, ...]:
        part = self.parts[place]
        return part if isinstance(part, tuple) else (part,) if isinstance(part, _Node) else ()

    def column(self) -> int:
        part = self.parts[-1]
        assert isinstance(part, int)
        return part


_Part = _Node | int | tuple[_Node, ...] | None


def oracle_actions(query: ir.Query, schema: Schema) -> tuple[Action, ...]:
    """Return the actions that make a query, but for its values, its DISTINCT and its tables.

    Raises:
        UnsupportedQueryError: the grammar lacks a part of it.
    """
    return tuple(_flat(_TreeOf(schema).statement(query)))


def build_query(actions: Sequence[Action], schema: Schema) -> ir.Query:
    """Return the query that actions make; its tables are those of its columns, the first one where there are none."""
    return _QueryOf(schema).statement(_tree(iter(actions)))


def _flat(node: _Node) -> Iterator[Action]:
    yield ApplyRule(node.rule.number)
    for field, part in zip(node.rule.fields, node.parts, strict=True):
        if isinstance(part, int):
            yield SelectColumn(part)
        elif isinstance(part, _Node):
            yield from _flat(part)
        else:
            for child in part or ():
                yield from _flat(child)
            yield REDUCE
        assert field.count or part is not None


def _tree(actions: Iterator[Action]) -> _Node:
    node = _node(actions, next(actions))
    assert node is not None
    return node


def _node(actions: Iterator[Action], first: Action) -> _Node | None:
    if isinstance(first, Reduce):
        return None
    assert isinstance(first, ApplyRule)
    rule = PRODUCTIONS[first.production]
    parts: list[_Part] = []
    for field in rule.fields:
        if field.type == COLUMN_TYPE:
            chosen = next(actions)
            assert isinstance(chosen, SelectColumn)
            parts.append(chosen.column)
        elif field.count == "*":
            parts.append(tuple(iter(lambda: _node(actions, next(actions)), None)))
        else:
            parts.append(_node(actions, next(actions)))
    return _Node(rule, tuple(parts))


def _make_node(name: str, *parts: _Part) -> _Node:
    return _Node(BY_NAME[name], parts)


class _TreeOf:
    """From queries to trees."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._star = STAR

    def statement(self, query: ir.Query) -> _Node:
        following = query.set_operation()
        if following is None:
            return _make_node("SingleQuery", self.query(query))
        name, second = following
        if second.set_operation():
            raise UnsupportedQueryError("more than one set operator")
        return _make_node(name.capitalize(), self.query(query.without_set_operation()), self.query(second))

    def query(self, query: ir.Query) -> _Node:
        if query.set_operation():
            raise UnsupportedQueryError(f"{query.set_operation()[0].upper()} in a nested query")  # type: ignore[index]
        tables = query.source.tables  # "*" is that of the only table that there is, else of none: table n has column n
        outer, self._star = self._star, tables[0] if len(tables) == 1 else STAR
        order = query.order_by
        items = tuple(_make_node("SelectCol", _aggregate(i.aggregate), self._unit(i.unit)) for i in query.select)
        joins = tuple(self._join(condition, query) for condition in query.source.joins)
        node = _make_node(
            "Query",
            _make_node("Select", items),
            _make_node("From", joins) if joins else None,
            _make_node("Where", self._conditions(query.where)) if query.where else None,
            _make_node("Having", self._conditions(query.having)) if query.having else None,
            self._order(order, limited=query.limit is not None) if order else None,
            _make_node("GroupBy", tuple(map(self._column, query.group_by))) if query.group_by else None,
        )
        self._star = outer
        return node

    def _column(self, unit: ir.ColumnUnit) -> _Node:
        column = self._star if unit.column == STAR else unit.column
        return _make_node("ColUnit", _aggregate(unit.aggregate), column)

    def _unit(self, unit: ir.ValueUnit) -> _Node:
        name = ir.UNIT_OPERATORS[unit.operator]
        if name not in _UNITS:
            raise UnsupportedQueryError(f"unsupported operator {name}")
        return _make_node(_UNITS[name], *map(self._column, unit.columns()))

    def _join(self, condition: ir.Condition, query: ir.Query) -> _Node:
        if not isinstance(condition.value, ir.ColumnUnit):
            raise UnsupportedQueryError("ON compares with a value")
        ends = (self._of_source(unit.column, query) for unit in (condition.unit.left, condition.value))
        return _make_node("FromCond", *(self._column(ir.ColumnUnit(0, column)) for column in ends))

    def _of_source(self, column: int, query: ir.Query) -> int:
        """Return the column, or the one of the same name where an alias led to a table that FROM does not name."""
        schema_column, tables = self._schema.columns[column], query.source.tables
        if schema_column.table in tables:
            return column
        same = self._schema.find_column(schema_column.original, tables)
        return column if same is None else same

    def _conditions(self, conditions: ir.Conditions) -> _Node:
        """Return the first condition and the rest, as "and" or "or" joins them."""
        node = self._condition(conditions.items[-1])
        for item, connector in zip(reversed(conditions.items[:-1]), reversed(conditions.connectors), strict=True):
            node = _make_node(connector.capitalize(), self._condition(item), node)
        return node

    def _condition(self, condition: ir.Condition) -> _Node:
        sign = ir.OPERATORS[condition.operator]
        name = next((name for name, known in _COMPARISONS.items() if known == sign), sign)
        nested = isinstance(condition.value, ir.Query)
        prefix = ("Not" if condition.negated else "") if name in ("In", "Like") else ""
        prefix = "Nested" if nested and name not in ("In", "Between") else prefix
        rule = BY_NAME.get(prefix + name)
        wrong = condition.negated and not prefix.startswith("Not")
        if rule is None or wrong or (nested and name == "Between") or (name == "In" and not nested):
            raise UnsupportedQueryError(f"{'NOT ' * condition.negated}{sign.upper()} with an unsupported value")
        body = (self.query(condition.value),) if isinstance(condition.value, ir.Query) else ()
        return _Node(rule, (self._unit(condition.unit), *body))

    def _order(self, order: ir.OrderBy, *, limited: bool) -> _Node:
        units = tuple(map(self._unit, order.units))
        return _make_node("Superlative" if limited else "Order", _make_node(order.direction), units)


def _aggregate(number: int) -> _Node:
    return _make_node(ir.AGGREGATES[number])


class _QueryOf:
    """From trees to queries."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def statement(self, node: _Node) -> ir.Query:
        first = self._query(node.node(0))
        if len(node.parts) == 1:
            return first
        return first.combine(node.rule.name.lower(), self._query(node.node(1)))

    def _query(self, node: _Node) -> ir.Query:
        select, _, where, having, order, group = (node.nodes(place) for place in range(6))
        return ir.Query(
            select=tuple(ir.SelectItem(_number(i.node(0)), self._unit(i.node(1))) for i in select[0].nodes(0)),
            source=self._source(node),
            where=self._clause(where),
            having=self._clause(having),
            order_by=self._order(order[0]) if order else None,
            limit=1 if order and order[0].rule.name == "Superlative" else None,
            group_by=tuple(map(self._column, group[0].nodes(0))) if group else (),
        )

    def _source(self, node: _Node) -> ir.From:
        """List the tables of all columns outside nested queries; a table that joins itself is there once more."""
        columns = self._schema.columns
        tables = {columns[column].table for column in _list_columns(node)} - {STAR}
        pairs = [(join.node(0).column(), join.node(1).column()) for part in node.nodes(1) for join in part.nodes(0)]
        again = [columns[left].table for left, right in pairs if columns[left].table == columns[right].table]
        joins = [
            ir.Condition(False, ir.OPERATORS.index("="), ir.ValueUnit(0, ir.ColumnUnit(0, a)), ir.ColumnUnit(0, b))
            for a, b in pairs
        ]
        return ir.From((*(sorted(tables) or [1]), *again), ir.Conditions(tuple(joins), ("and",) * (len(joins) - 1)))

    def _column(self, node: _Node) -> ir.ColumnUnit:
        column = node.column()
        return ir.ColumnUnit(_number(node.node(0)), STAR if self._schema.columns[column].original == "*" else column)

    def _unit(self, node: _Node) -> ir.ValueUnit:
        operator = next(sign for sign, name in _UNITS.items() if name == node.rule.name)
        sides = [self._column(node.node(place)) for place in range(len(node.parts))]
        return ir.ValueUnit(ir.UNIT_OPERATORS.index(operator), *sides)

    def _clause(self, nodes: tuple[_Node, ...]) -> ir.Conditions:
        return ir.Conditions(*self._conditions(nodes[0].node(0))) if nodes else ir.Conditions()

    def _conditions(self, node: _Node) -> tuple[tuple[ir.Condition, ...], tuple[str, ...]]:
        if node.rule.name not in ("And", "Or"):
            return (self._condition(node),), ()
        (first, between), (rest, after) = self._conditions(node.node(0)), self._conditions(node.node(1))
        return (*first, *rest), (*between, node.rule.name.lower(), *after)

    def _condition(self, node: _Node) -> ir.Condition:
        name = node.rule.name.removeprefix("Nested").removeprefix("Not")
        value = self._query(node.node(1)) if len(node.parts) > 1 else PLACEHOLDER
        return ir.Condition(
            negated=node.rule.name.startswith("Not"),
            operator=ir.OPERATORS.index(_COMPARISONS[name]),
            unit=self._unit(node.node(0)),
            value=value,
            second=PLACEHOLDER if name == "Between" else None,
        )

    def _order(self, node: _Node) -> ir.OrderBy:
        return ir.OrderBy(node.node(0).rule.name, tuple(map(self._unit, node.nodes(1))))


def _number(node: _Node) -> int:
    return ir.AGGREGATES.index(node.rule.name)


def _list_columns(node: _Node) -> Iterator[int]:
    """Yield the columns of a query without those of queries in it."""
    for part in node.parts:
        if isinstance(part, int):
            yield part
        else:
            for child in (part,) if isinstance(part, _Node) else part or ():
                if child.rule.name != "Query":
                    yield from _list_columns(child)
