"""Exact set match of two queries, whatever their values, and hardness: the official measures of Spider.

What it does not see: DISTINCT, and on what tables are joined. What it sees in nested queries of conditions: everything
but values, in its order.
Source: taoyds/spider, `evaluation.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from mate_cli.papers.dt_fixup.sql import ir
from mate_cli.papers.dt_fixup.sql.ir import OPERATORS, Condition, Query
from mate_cli.papers.dt_fixup.sql.schema import STAR, Schema

COMPONENTS = (
    "select",
    "select(no AGG)",
    "where",
    "where(no OP)",
    "group(no Having)",
    "group",
    "order",
    "and/or",
    "IUEN",
    "keywords",
)
"""The parts that are compared, as the official report calls them."""

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class ComponentScore:
    """One part of two queries: how many there are in each, and how many in both."""

    predicted: int
    gold: int
    shared: int

    @property
    def is_equal(self) -> bool:
        """True if the part is the same in both; it is where neither has it."""
        return self.predicted == self.gold == self.shared


def queries_match(predicted: ir.Query, gold: ir.Query, schema: Schema) -> bool:
    """Tell whether two queries on one database have the same parts and the same tables."""
    return _is_equal(_compared_parts(predicted, schema), _compared_parts(gold, schema), schema)


def component_scores(predicted: ir.Query, gold: ir.Query, schema: Schema) -> dict[str, ComponentScore]:
    """Return the parts of two queries by the names of `COMPONENTS`."""
    return _compared(_compared_parts(predicted, schema), _compared_parts(gold, schema), schema)


def _is_equal(predicted: ir.Query, gold: ir.Query, schema: Schema) -> bool:
    if not all(score.is_equal for score in _compared(predicted, gold, schema).values()):
        return False
    units = predicted.source.units
    return not gold.source.units or (
        len(units) == len(gold.source.units) and _count_shared(units, gold.source.units) == len(units)
    )


def _compared(predicted: ir.Query, gold: ir.Query, schema: Schema) -> dict[str, ComponentScore]:
    pairs: tuple[tuple[Sequence[Any], Sequence[Any]], ...] = (
        (predicted.select, gold.select),
        ([item.unit for item in predicted.select], [item.unit for item in gold.select]),
        (predicted.where.items, gold.where.items),
        ([condition.unit for condition in predicted.where], [condition.unit for condition in gold.where]),
        (_grouped_names(predicted, schema), _grouped_names(gold, schema)),
    )
    scores = [ComponentScore(len(items), len(others), _count_shared(items, others)) for items, others in pairs]
    scores += [_grouping(predicted, gold), _ordering(predicted, gold), _connectors(predicted, gold)]
    scores.append(_set_operators(predicted, gold, schema))
    words, wanted = _keywords(predicted), _keywords(gold)
    scores.append(ComponentScore(len(words), len(wanted), len(words & wanted)))
    return dict(zip(COMPONENTS, scores, strict=True))


def _count_shared(items: Sequence[Any], others: Sequence[Any]) -> int:
    """Count the items in both, each as often as in both."""
    left = list(others)
    count = 0
    for item in items:
        if item in left:
            left.remove(item)
            count += 1
    return count


def _grouped_names(query: ir.Query, schema: Schema) -> list[str]:
    return [schema.columns[unit.column].original.lower() for unit in query.group_by]


def _grouping(predicted: ir.Query, gold: ir.Query) -> ComponentScore:
    """Return the list of columns in its order, and HAVING."""
    columns, wanted = ([unit.column for unit in query.group_by] for query in (predicted, gold))
    same = bool(columns) and columns == wanted and predicted.having == gold.having
    return ComponentScore(int(bool(columns)), int(bool(wanted)), int(same))


def _ordering(predicted: ir.Query, gold: ir.Query) -> ComponentScore:
    limited = (predicted.limit is None) == (gold.limit is None)
    same = gold.order_by is not None and predicted.order_by == gold.order_by and limited
    return ComponentScore(int(predicted.order_by is not None), int(gold.order_by is not None), int(same))


def _connectors(predicted: ir.Query, gold: ir.Query) -> ComponentScore:
    connectors, wanted = set(predicted.where.connectors), set(gold.where.connectors)
    return ComponentScore(1, 1, 1) if connectors == wanted else ComponentScore(len(connectors), len(wanted), 0)


def _set_operators(predicted: ir.Query, gold: ir.Query, schema: Schema) -> ComponentScore:
    pairs = [(predicted.intersect, gold.intersect), (predicted.except_, gold.except_), (predicted.union, gold.union)]
    same = sum(_is_equal(query, wanted, schema) for query, wanted in pairs if query and wanted)
    return ComponentScore(sum(bool(query) for query, _ in pairs), sum(bool(wanted) for _, wanted in pairs), same)


def _keywords(query: ir.Query) -> set[str]:
    clauses = {
        "where": query.where.items,
        "group": query.group_by,
        "having": query.having.items,
        "order": query.order_by,
        "limit": query.limit is not None,
        "except": query.except_,
        "union": query.union,
        "intersect": query.intersect,
    }
    keywords = {word for word, there in clauses.items() if there}
    parts = (query.source.joins, query.where, query.having)
    conditions = [condition for part in parts for condition in part]
    keywords |= {query.order_by.direction} if query.order_by else set()
    keywords |= {"or"} & {connector for part in parts for connector in part.connectors}
    keywords |= {"not"} if any(condition.negated for condition in conditions) else set()
    return keywords | ({"in", "like"} & {ir.OPERATORS[condition.operator] for condition in conditions})


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


COLUMN_ERROR, SKETCH_ERROR, DOUBLE_ERROR = "column_error", "sketch_error", "column_and_sketch_error"


def query_error(predicted: ir.Query, gold: ir.Query, schema: Schema) -> str:
    """Say what is wrong with a query that does not match the right one: its columns, its structure, or both.

    Source: Xu et al. 2021 (DT-Fixup), section 5.4. A column error has the right structure with wrong columns, a sketch
    error the other way round.
    """
    same_columns = set(_columns(predicted)) == set(_columns(gold))
    same_sketch = queries_match(_sketch(predicted), _sketch(gold), schema)
    if same_sketch:
        return COLUMN_ERROR
    return SKETCH_ERROR if same_columns else DOUBLE_ERROR


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


LEVELS = ("easy", "medium", "hard", "extra")

_LIKE = OPERATORS.index("like")


def hardness(query: Query) -> str:
    """Return one of `LEVELS`; of a gold query, as it was parsed."""
    parts, nested, others = _parts(query), _count_nested(query), _count_others(query)
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


def _count_nested(query: Query) -> int:
    values = [value for condition in _conditions(query) for value in (condition.value, condition.second)]
    return sum(isinstance(value, Query) for value in (*values, query.intersect, query.union, query.except_))


def _count_others(query: Query) -> int:
    ordered = [column for unit in (query.order_by.units if query.order_by else ()) for column in unit.columns()]
    aggregates = [item.aggregate != 0 for item in query.select]
    aggregates += [column.aggregate != 0 for column in (*query.group_by, *ordered)]
    negated = [condition.negated for condition in (*query.where, *query.having)]
    count = sum(aggregates) + sum(negated) + len(query.having.connectors)
    return (count > 1) + (len(query.select) > 1) + (len(query.where) > 1) + (len(query.group_by) > 1)
