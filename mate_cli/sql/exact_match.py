"""Whether two queries are the same set of parts, whatever their values: the official measure of Spider.

What it does not see: DISTINCT, and on what tables are joined. What it sees in nested queries of conditions: everything
but values, in its order.
Source: taoyds/spider, `evaluation.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from mate_cli.sql.ir import (
    OPERATORS,
    ColumnUnit,
    Condition,
    Conditions,
    From,
    OrderBy,
    Query,
    SelectItem,
    Value,
    ValueUnit,
)
from mate_cli.sql.schema import STAR, Schema

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


@dataclass(frozen=True, slots=True)
class ComponentScore:
    """One part of two queries: how many there are in each, and how many in both."""

    predicted: int
    gold: int
    shared: int

    @property
    def is_equal(self) -> bool:
        """Whether the part is the same in both; it is where neither has it."""
        return self.predicted == self.gold == self.shared


def queries_match(predicted: Query, gold: Query, schema: Schema) -> bool:
    """Whether two queries on one database have the same parts and the same tables."""
    return _same(_canonical(predicted, schema), _canonical(gold, schema), schema)


def component_scores(predicted: Query, gold: Query, schema: Schema) -> dict[str, ComponentScore]:
    """The parts of two queries by the names of `COMPONENTS`."""
    return _compared(_canonical(predicted, schema), _canonical(gold, schema), schema)


def _canonical(query: Query, schema: Schema) -> Query:
    return _Canonical(schema, query).query(query)


def _same(predicted: Query, gold: Query, schema: Schema) -> bool:
    if not all(score.is_equal for score in _compared(predicted, gold, schema).values()):
        return False
    units = predicted.source.units
    return not gold.source.units or (
        len(units) == len(gold.source.units) and _shared(units, gold.source.units) == len(units)
    )


def _compared(predicted: Query, gold: Query, schema: Schema) -> dict[str, ComponentScore]:
    pairs: tuple[tuple[Sequence[Any], Sequence[Any]], ...] = (
        (predicted.select, gold.select),
        ([item.unit for item in predicted.select], [item.unit for item in gold.select]),
        (predicted.where.items, gold.where.items),
        ([condition.unit for condition in predicted.where], [condition.unit for condition in gold.where]),
        (_grouped_names(predicted, schema), _grouped_names(gold, schema)),
    )
    found = [ComponentScore(len(one), len(other), _shared(one, other)) for one, other in pairs]
    found += [_grouping(predicted, gold), _ordering(predicted, gold), _connectors(predicted, gold)]
    found.append(_set_operators(predicted, gold, schema))
    words, wanted = _keywords(predicted), _keywords(gold)
    found.append(ComponentScore(len(words), len(wanted), len(words & wanted)))
    return dict(zip(COMPONENTS, found, strict=True))


def _shared(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many there are in both, each as often as in both."""
    left = list(other)
    count = 0
    for item in one:
        if item in left:
            left.remove(item)
            count += 1
    return count


def _grouped_names(query: Query, schema: Schema) -> list[str]:
    return [schema.columns[unit.column].original.lower() for unit in query.group_by]


def _grouping(predicted: Query, gold: Query) -> ComponentScore:
    """The list of columns in its order, and HAVING."""
    one, other = ([unit.column for unit in query.group_by] for query in (predicted, gold))
    same = bool(one) and one == other and predicted.having == gold.having
    return ComponentScore(int(bool(one)), int(bool(other)), int(same))


def _ordering(predicted: Query, gold: Query) -> ComponentScore:
    limited = (predicted.limit is None) == (gold.limit is None)
    same = gold.order_by is not None and predicted.order_by == gold.order_by and limited
    return ComponentScore(int(predicted.order_by is not None), int(gold.order_by is not None), int(same))


def _connectors(predicted: Query, gold: Query) -> ComponentScore:
    one, other = set(predicted.where.connectors), set(gold.where.connectors)
    return ComponentScore(1, 1, 1) if one == other else ComponentScore(len(one), len(other), 0)


def _set_operators(predicted: Query, gold: Query, schema: Schema) -> ComponentScore:
    pairs = [
        (predicted.intersect, gold.intersect),
        (predicted.except_, gold.except_),
        (predicted.union, gold.union),
    ]
    same = sum(_same(one, other, schema) for one, other in pairs if one and other)
    return ComponentScore(sum(bool(one) for one, _ in pairs), sum(bool(other) for _, other in pairs), same)


def _keywords(query: Query) -> set[str]:
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
    found = {word for word, there in clauses.items() if there}
    parts = (query.source.joins, query.where, query.having)
    conditions = [condition for part in parts for condition in part]
    found |= {query.order_by.direction} if query.order_by else set()
    found |= {"or"} & {connector for part in parts for connector in part.connectors}
    found |= {"not"} if any(condition.negated for condition in conditions) else set()
    return found | ({"in", "like"} & {OPERATORS[condition.operator] for condition in conditions})


class _Canonical:
    """Takes away what is not compared, and gives columns that refer to each other one number.

    The columns are those of the query's tables, also in the queries that follow it.
    """

    def __init__(self, schema: Schema, query: Query) -> None:
        tables = set(query.source.tables)
        groups = _key_groups(schema).items()
        self._same = {column: first for column, first in groups if schema.columns[column].table in tables}

    def query(self, query: Query) -> Query:
        order = query.order_by
        return Query(
            select=tuple(SelectItem(item.aggregate, self._unit(item.unit)) for item in query.select),
            source=replace(query.source, joins=self._conditions(query.source.joins)),
            where=self._conditions(query.where),
            group_by=tuple(map(self._column, query.group_by)),
            having=self._conditions(query.having),
            order_by=order and OrderBy(order.direction, tuple(map(self._unit, order.units))),
            limit=query.limit,
            intersect=query.intersect and self.query(query.intersect),
            union=query.union and self.query(query.union),
            except_=query.except_ and self.query(query.except_),
        )

    def _column(self, unit: ColumnUnit) -> ColumnUnit:
        return ColumnUnit(unit.aggregate, self._same.get(unit.column, unit.column))

    def _unit(self, unit: ValueUnit) -> ValueUnit:
        return ValueUnit(unit.operator, self._column(unit.left), unit.right and self._column(unit.right))

    def _conditions(self, conditions: Conditions) -> Conditions:
        items = (replace(_without_values(condition), unit=self._unit(condition.unit)) for condition in conditions)
        return replace(conditions, items=tuple(items))


def _without_values(condition: Condition) -> Condition:
    return replace(condition, value=_nested(condition.value), second=_nested(condition.second))


def _nested(value: Value) -> Query | None:
    """A nested query without the values in it; of any other value nothing is left."""
    if not isinstance(value, Query):
        return None
    joins, where, having = (
        replace(part, items=tuple(map(_without_values, part)))
        for part in (value.source.joins, value.where, value.having)
    )
    return replace(
        value,
        source=replace(value.source, joins=joins),
        where=where,
        having=having,
        intersect=_nested(value.intersect),
        union=_nested(value.union),
        except_=_nested(value.except_),
    )


def _key_groups(schema: Schema) -> Mapping[int, int]:
    """Of each column with a foreign key, the first of those that it stands for; two groups are never joined."""
    groups: list[set[int]] = []
    for pair in schema.foreign_keys:
        found = next((group for group in groups if group & set(pair)), None)
        if found is None:
            groups.append(found := set())
        found |= set(pair)
    return {column: min(group) for group in groups for column in group}


COLUMN_ERROR, SKETCH_ERROR, DOUBLE_ERROR = "column_error", "sketch_error", "column_and_sketch_error"

Part = TypeVar("Part")


def query_error(predicted: Query, gold: Query, schema: Schema) -> str:
    """What is wrong with a query that does not match the right one: its columns, its structure, or both.

    Source: Xu et al. 2021 (DT-Fixup), section 4.4: a column error is "the structure is right, the columns are wrong", a
    sketch error the other way round.
    """
    same_columns = set(_columns(predicted)) == set(_columns(gold))
    same_sketch = queries_match(_sketch(predicted), _sketch(gold), schema)
    if same_sketch:
        return COLUMN_ERROR
    return SKETCH_ERROR if same_columns else DOUBLE_ERROR


def _sketch(part: Part) -> Part:
    """The same part of a query with "*" for every column, and of one table."""
    if isinstance(part, ColumnUnit):
        return replace(part, column=STAR)
    if isinstance(part, From):
        return replace(part, units=(1,), joins=Conditions())
    if isinstance(part, tuple):
        return tuple(map(_sketch, part))  # type: ignore[return-value]
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{field.name: _sketch(getattr(part, field.name)) for field in fields(part)})
    return part


def _columns(part: Any) -> Iterator[int]:  # noqa: ANN401 - any part of a query
    """The columns of a query, but for those that tables are joined by."""
    if isinstance(part, ColumnUnit):
        yield part.column
    elif isinstance(part, tuple):
        for one in part:
            yield from _columns(one)
    elif is_dataclass(part) and not isinstance(part, From):
        for field in fields(part):
            yield from _columns(getattr(part, field.name))
