"""Spider's official metrics: exact-set match of two queries without values, and hardness.

The comparison ignores DISTINCT and join conditions. Nested queries in conditions must be equal in everything except
values, including the order.
Source: taoyds/spider, `evaluation.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from mate_cli.papers.dt_fixup.sql import ir
from mate_cli.papers.dt_fixup.sql.schema import STAR, Schema

Part = TypeVar("Part")


def queries_match(predicted: ir.Query, gold: ir.Query, schema: Schema) -> bool:
    """Return whether two queries on one database have the same components and tables.

    Args:
        predicted: the predicted query.
        gold: the gold query.
        schema: schema of the database.
    """
    return _is_equal(_compared_parts(predicted, schema), _compared_parts(gold, schema))


def _is_equal(predicted: ir.Query, gold: ir.Query) -> bool:
    following, gold_following = predicted.following, gold.following
    if following and gold_following:
        is_same = following[0] == gold_following[0] and _is_equal(following[1], gold_following[1])
    else:
        is_same = following is gold_following
    return (
        is_same
        and _compared_clauses(predicted) == _compared_clauses(gold)
        and (not gold.source.units or Counter(predicted.source.units) == Counter(gold.source.units))
    )


def _compared_clauses(query: ir.Query) -> list[Collection[object]]:
    """Return the clauses that exact-set match compares, as values that are equal for a match.

    The order counts in GROUP BY and ORDER BY only.
    """
    return [
        Counter(query.select),
        Counter(query.where.items),
        set(query.where.connectors),
        [tuple(unit.column for unit in query.group_by), query.having] if query.group_by else [],
        [query.order_by, query.limit is None] if query.order_by else [],
        _keywords(query),
    ]


def _keywords(query: ir.Query) -> set[str]:
    clauses = {
        "where": query.where.items,
        "group": query.group_by,
        "having": query.having.items,
        "order": query.order_by,
        "limit": query.limit is not None,
    }
    keywords = {word for word, is_present in clauses.items() if is_present}
    keywords |= {query.order_by.direction} if query.order_by else set()
    keywords |= {query.following[0]} if query.following else set()
    keywords |= {"or"} & set(_connectors(query))
    keywords |= {"not" for condition in _conditions(query) if condition.negated}
    return keywords | ({"in", "like"} & {ir.OPERATORS[condition.operator] for condition in _conditions(query)})


def _compared_parts(query: ir.Query, schema: Schema) -> ir.Query:
    """Remove the parts of a query that exact-set match ignores, such as values and DISTINCT.

    Columns of its tables that are linked by foreign keys share one number, also in queries joined by set operators.
    """
    tables = set(query.source.tables)
    groups = _key_groups(schema).items()
    representatives = {column: first for column, first in groups if schema.columns[column].table in tables}
    return _renumbered(_valueless(query), representatives)


def _map_children(part: Part, function: Callable[[Any], Any]) -> Part:
    """Return a copy of a part of a query, with a function applied to each of its children."""
    if isinstance(part, tuple):
        return tuple(map(function, part))  # type: ignore[return-value]
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{field.name: function(getattr(part, field.name)) for field in fields(part)})
    return part


def _renumbered(part: Part, representatives: Mapping[int, int]) -> Part:
    """Replace linked columns in a query by one representative, to compare equal queries.

    DISTINCT is removed. Nested queries in conditions and FROM are unchanged.
    """
    if isinstance(part, ir.ColumnUnit):
        return replace(part, column=representatives.get(part.column, part.column), distinct=False)
    if isinstance(part, ir.Condition):
        return replace(part, unit=_renumbered(part.unit, representatives))
    if isinstance(part, ir.From):
        return replace(part, joins=_renumbered(part.joins, representatives))
    changed = _map_children(part, lambda child: _renumbered(child, representatives))
    return replace(changed, distinct=False) if isinstance(changed, ir.Query) else changed


def _valueless(part: Part) -> Part:
    """Remove the compared values (such as 3 in `age > 3`) from the conditions of a query.

    Nested queries are unchanged.
    """
    if isinstance(part, ir.Condition):
        return replace(part, value=_nested(part.value), second=_nested(part.second))
    if isinstance(part, ir.From):
        return replace(part, joins=_valueless(part.joins))
    return _map_children(part, _valueless) if isinstance(part, ir.Query | ir.Conditions | tuple) else part


def _nested(value: ir.Value) -> ir.Query | None:
    return _valueless(value) if isinstance(value, ir.Query) else None


def _key_groups(schema: Schema) -> Mapping[int, int]:
    """Group columns that foreign keys link, and map each column to the first of its group.

    Two existing groups are never merged.
    """
    groups: list[set[int]] = []
    for pair in schema.foreign_keys:
        group = next((group for group in groups if group & set(pair)), None)
        if group is None:
            groups.append(group := set())
        group |= set(pair)
    return {column: min(group) for group in groups for column in group}


def has_same_columns(predicted: ir.Query, gold: ir.Query) -> bool:
    """Return whether two queries contain the same columns, regardless of their use."""
    return set(_columns(predicted)) == set(_columns(gold))


def has_same_structure(predicted: ir.Query, gold: ir.Query, schema: Schema) -> bool:
    """Return whether two queries match regardless of their columns and tables.

    Args:
        predicted: the predicted query.
        gold: the gold query.
        schema: schema of the database.
    """
    return queries_match(_sketch(predicted), _sketch(gold), schema)


def _sketch(part: Part) -> Part:
    """Replace every column of a query by "*" and every FROM by one table, to compare structure only."""
    if isinstance(part, ir.ColumnUnit):
        return replace(part, column=STAR)
    if isinstance(part, ir.From):
        return replace(part, units=(1,), joins=ir.Conditions())
    return _map_children(part, _sketch)


def _columns(part: Any) -> Iterator[int]:  # noqa: ANN401 - part of a query
    """Yield the column numbers in a query or a clause, FROM clauses excluded."""
    if isinstance(part, ir.ColumnUnit):
        yield part.column
    elif isinstance(part, tuple):
        for item in part:
            yield from _columns(item)
    elif is_dataclass(part) and not isinstance(part, ir.From):
        for field in fields(part):
            yield from _columns(getattr(part, field.name))


def hardness(query: ir.Query) -> str:
    """Return the hardness of a parsed gold query: "easy", "medium", "hard" or "extra"."""
    values = [value for condition in _conditions(query) for value in (condition.value, condition.second)]
    nested = sum(isinstance(value, ir.Query) for value in values) + (query.following is not None)
    parts, others_count = _count_parts(query), _count_others(query)
    if parts <= 1 and others_count == 0 and nested == 0:
        return "easy"
    if nested == 0 and ((others_count <= 2 and parts <= 1) or (parts <= 2 and others_count < 2)):
        return "medium"
    if nested == 0 and ((others_count > 2 and parts <= 2) or (2 < parts <= 3 and others_count <= 2)):
        return "hard"
    return "hard" if parts <= 1 and others_count == 0 and nested <= 1 else "extra"


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
    order_columns = [column for unit in (query.order_by.units if query.order_by else ()) for column in unit.columns()]
    aggregates = [item.aggregate != 0 for item in query.select]
    aggregates += [column.aggregate != 0 for column in (*query.group_by, *order_columns)]
    negated = [condition.negated for condition in (*query.where, *query.having)]
    count = sum(aggregates) + sum(negated) + len(query.having.connectors)
    return (count > 1) + (len(query.select) > 1) + (len(query.where) > 1) + (len(query.group_by) > 1)
