"""How hard a query is, by what stands in it: "easy", "medium", "hard" or "extra".

Source: taoyds/spider, `evaluation.py`, with its slips: HAVING is not counted, and of conditions it is NOT that counts
as an aggregate, as does every "and" and "or" of HAVING.
"""

from __future__ import annotations

from mate_cli.sql.ir import OPERATORS, Condition, Query

LEVELS = ("easy", "medium", "hard", "extra")

_LIKE = OPERATORS.index("like")


def hardness(query: Query) -> str:
    """One of `LEVELS`; of a gold query, as it was parsed."""
    parts, nested, others = _parts(query), _nested(query), _others(query)
    if parts <= 1 and others == 0 and nested == 0:
        return "easy"
    if nested == 0 and ((others <= 2 and parts <= 1) or (parts <= 2 and others < 2)):
        return "medium"
    if nested == 0 and ((others > 2 and parts <= 2) or (2 < parts <= 3 and others <= 2)):
        return "hard"
    return "hard" if parts <= 1 and others == 0 and nested <= 1 else "extra"


def _conditions(query: Query) -> list[Condition]:
    return [*query.source.joins, *query.where, *query.having]


def _parts(query: Query) -> int:
    clauses = (query.where.items, query.group_by, query.order_by, query.limit is not None)
    connectors = (*query.source.joins.connectors, *query.where.connectors, *query.having.connectors)
    likes = sum(condition.operator == _LIKE for condition in _conditions(query))
    joins = max(0, len(query.source.units) - 1)
    return sum(map(bool, clauses)) + joins + connectors.count("or") + likes


def _nested(query: Query) -> int:
    values = [value for condition in _conditions(query) for value in (condition.value, condition.second)]
    return sum(isinstance(one, Query) for one in (*values, query.intersect, query.union, query.except_))


def _others(query: Query) -> int:
    ordered = [column for unit in (query.order_by.units if query.order_by else ()) for column in unit.columns()]
    aggregates = [item.aggregate != 0 for item in query.select]
    aggregates += [column.aggregate != 0 for column in (*query.group_by, *ordered)]
    negated = [condition.negated for condition in (*query.where, *query.having)]
    count = sum(aggregates) + sum(negated) + len(query.having.connectors)
    return (count > 1) + (len(query.select) > 1) + (len(query.where) > 1) + (len(query.group_by) > 1)
