"""Exact set match of two queries, whatever their values, and hardness: the official measures of Spider.

What it does not see: DISTINCT, and on what tables are joined. What it sees in nested queries of conditions: everything
but values, in its order.
Source: taoyds/spider, `evaluation.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple, TypeVar

from mate_cli.papers.dt_fixup.sql import ir
from mate_cli.papers.dt_fixup.sql.schema import STAR, Schema

Part = TypeVar("Part")


class ComponentScore(NamedTuple):
    """One part of two queries: how many there are in each, and how many in both; all alike where both are the same."""

    predicted: int
    gold: int
    shared: int


def queries_match(predicted: ir.Query, gold: ir.Query, schema: Schema) -> bool:
    """Tell whether two queries on one database have the same parts and the same tables."""
    return _is_equal(_compared_parts(predicted, schema), _compared_parts(gold, schema), schema)


def component_scores(predicted: ir.Query, gold: ir.Query, schema: Schema) -> dict[str, ComponentScore]:
    """Return the parts of two queries, by the names of the official report."""
    return _compared(_compared_parts(predicted, schema), _compared_parts(gold, schema), schema)


def _is_equal(predicted: ir.Query, gold: ir.Query, schema: Schema) -> bool:
    if any(len(set(score)) > 1 for score in _compared(predicted, gold, schema).values()):
        return False
    return not gold.source.units or Counter(predicted.source.units) == Counter(gold.source.units)


def _compared(predicted: ir.Query, gold: ir.Query, schema: Schema) -> dict[str, ComponentScore]:
    parts, wanted = _parts_of(predicted, schema), _parts_of(gold, schema)
    scores = {
        name: ComponentScore(items.total(), wanted[name].total(), (items & wanted[name]).total())
        for name, items in parts.items()
    }
    words, others = set(predicted.where.connectors), set(gold.where.connectors)
    scores["and/or"] = ComponentScore(1, 1, 1) if words == others else ComponentScore(len(words), len(others), 0)
    one, other = predicted.following, gold.following
    is_same = bool(one and other and one[0] == other[0] and _is_equal(one[1], other[1], schema))
    scores["IUEN"] = ComponentScore(int(one is not None), int(other is not None), int(is_same))
    return scores


def _parts_of(query: ir.Query, schema: Schema) -> dict[str, Counter[Any]]:
    """Count the parts of a query that are compared one by one, by the names of the official report."""
    columns = tuple(unit.column for unit in query.group_by)
    parts: dict[str, Iterable[Any]] = {
        "select": query.select,
        "select(no AGG)": [item.unit for item in query.select],
        "where": query.where.items,
        "where(no OP)": [condition.unit for condition in query.where],
        "group(no Having)": [schema.columns[column].original.lower() for column in columns],
        "group": [(columns, query.having)] if columns else [],
        "order": [(query.order_by, query.limit is None)] if query.order_by else [],
        "keywords": _keywords(query),
    }
    return {name: Counter(items) for name, items in parts.items()}


def _keywords(query: ir.Query) -> set[str]:
    clauses = {
        "where": query.where.items,
        "group": query.group_by,
        "having": query.having.items,
        "order": query.order_by,
        "limit": query.limit is not None,
    }
    keywords = {word for word, there in clauses.items() if there}
    keywords |= {query.order_by.direction} if query.order_by else set()
    keywords |= {query.following[0]} if query.following else set()
    keywords |= {"or"} & set(_connectors(query))
    keywords |= {"not" for condition in _conditions(query) if condition.negated}
    return keywords | ({"in", "like"} & {ir.OPERATORS[condition.operator] for condition in _conditions(query)})


def _compared_parts(query: ir.Query, schema: Schema) -> ir.Query:
    """Return the query without what is not compared; columns of its tables that refer to each other have one number.

    They have it also in the queries that follow it.
    """
    tables = set(query.source.tables)
    groups = _key_groups(schema).items()
    same = {column: first for column, first in groups if schema.columns[column].table in tables}
    return _renumbered(_valueless(query), same)


def _each(part: Part, change: Callable[[Any], Any]) -> Part:
    """Return the same part of a query with all that is in it changed."""
    if isinstance(part, tuple):
        return tuple(map(change, part))  # type: ignore[return-value]
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{field.name: change(getattr(part, field.name)) for field in fields(part)})
    return part


def _renumbered(part: Part, same: Mapping[int, int]) -> Part:
    """Give columns other numbers, and drop DISTINCT; nested queries of conditions and of FROM stay as they are."""
    if isinstance(part, ir.ColumnUnit):
        return replace(part, column=same.get(part.column, part.column), distinct=False)
    if isinstance(part, ir.Condition):
        return replace(part, unit=_renumbered(part.unit, same))
    if isinstance(part, ir.From):
        return replace(part, joins=_renumbered(part.joins, same))
    changed = _each(part, lambda child: _renumbered(child, same))
    return replace(changed, distinct=False) if isinstance(changed, ir.Query) else changed


def _valueless(part: Part) -> Part:
    """Drop the values of conditions, of which nested queries are left."""
    if isinstance(part, ir.Condition):
        return replace(part, value=_nested(part.value), second=_nested(part.second))
    if isinstance(part, ir.From):
        return replace(part, joins=_valueless(part.joins))
    return _each(part, _valueless) if isinstance(part, ir.Query | ir.Conditions | tuple) else part


def _nested(value: ir.Value) -> ir.Query | None:
    return _valueless(value) if isinstance(value, ir.Query) else None


def _key_groups(schema: Schema) -> Mapping[int, int]:
    """Map each column with a foreign key to the first of those that it stands for; two groups are never joined."""
    groups: list[set[int]] = []
    for pair in schema.foreign_keys:
        group = next((group for group in groups if group & set(pair)), None)
        if group is None:
            groups.append(group := set())
        group |= set(pair)
    return {column: min(group) for group in groups for column in group}


def has_same_columns(predicted: ir.Query, gold: ir.Query) -> bool:
    """Tell whether two queries name the same columns, whatever they do with them."""
    return set(_columns(predicted)) == set(_columns(gold))


def has_same_structure(predicted: ir.Query, gold: ir.Query, schema: Schema) -> bool:
    """Tell whether two queries match, whatever their columns and tables are."""
    return queries_match(_sketch(predicted), _sketch(gold), schema)


def _sketch(part: Part) -> Part:
    """Return the same part of a query with "*" for every column, and of one table."""
    if isinstance(part, ir.ColumnUnit):
        return replace(part, column=STAR)
    if isinstance(part, ir.From):
        return replace(part, units=(1,), joins=ir.Conditions())
    return _each(part, _sketch)


def _columns(part: Any) -> Iterator[int]:  # noqa: ANN401 - any part of a query
    """Yield the columns of a query, but for those that tables are joined by."""
    if isinstance(part, ir.ColumnUnit):
        yield part.column
    elif isinstance(part, tuple):
        for item in part:
            yield from _columns(item)
    elif is_dataclass(part) and not isinstance(part, ir.From):
        for field in fields(part):
            yield from _columns(getattr(part, field.name))


def hardness(query: ir.Query) -> str:
    """Return "easy", "medium", "hard" or "extra"; of a gold query, as it was parsed."""
    values = [value for condition in _conditions(query) for value in (condition.value, condition.second)]
    nested = sum(isinstance(value, ir.Query) for value in values) + (query.following is not None)
    parts, others = _count_parts(query), _count_others(query)
    if parts <= 1 and others == 0 and nested == 0:
        return "easy"
    if nested == 0 and ((others <= 2 and parts <= 1) or (parts <= 2 and others < 2)):
        return "medium"
    if nested == 0 and ((others > 2 and parts <= 2) or (2 < parts <= 3 and others <= 2)):
        return "hard"
    return "hard" if parts <= 1 and others == 0 and nested <= 1 else "extra"


def _conditions(query: ir.Query) -> list[ir.Condition]:
    return [*query.source.joins, *query.where, *query.having]


def _connectors(query: ir.Query) -> list[str]:
    return [*query.source.joins.connectors, *query.where.connectors, *query.having.connectors]


def _count_parts(query: ir.Query) -> int:
    clauses = (query.where.items, query.group_by, query.order_by, query.limit is not None)
    likes = sum(ir.OPERATORS[condition.operator] == "like" for condition in _conditions(query))
    joins = max(0, len(query.source.units) - 1)
    return sum(map(bool, clauses)) + joins + _connectors(query).count("or") + likes


def _count_others(query: ir.Query) -> int:
    ordered = [column for unit in (query.order_by.units if query.order_by else ()) for column in unit.columns()]
    aggregates = [item.aggregate != 0 for item in query.select]
    aggregates += [column.aggregate != 0 for column in (*query.group_by, *ordered)]
    negated = [condition.negated for condition in (*query.where, *query.having)]
    count = sum(aggregates) + sum(negated) + len(query.having.connectors)
    return (count > 1) + (len(query.select) > 1) + (len(query.where) > 1) + (len(query.group_by) > 1)
