"""Queries in the layout of Spider, to see that their texts are read as its own parser reads them."""

from __future__ import annotations

from mate_cli.papers.dt_fixup.sql.ir import (
    SET_OPERATORS,
    ColumnUnit,
    Condition,
    Conditions,
    From,
    OrderBy,
    Query,
    SelectItem,
    ValueUnit,
)
from mate_cli.papers.dt_fixup.sql.schema import STAR


def query_from_dict(entry, schema):
    """The query of a field `sql` of Spider's files, whose columns are numbered without those that are written "*"."""
    stars = len(schema.tables)

    def column(unit):
        aggregate, number, distinct = unit
        return ColumnUnit(aggregate, number + stars - 1 if number else STAR, distinct)

    def unit(parts):
        operator, left, right = parts
        return ValueUnit(operator, column(left), right and column(right))

    def value(part):
        if isinstance(part, dict):
            return query_from_dict(part, schema)
        if isinstance(part, list):
            return column(part)
        return int(part) if isinstance(part, float) and part.is_integer() else part  # the files have 20.0 for 20

    def conditions(parts):
        items = (Condition(n, operator, unit(left), *map(value, ends)) for n, operator, left, *ends in parts[::2])
        return Conditions(tuple(items), tuple(parts[1::2]))

    sources, order, (distinct, items) = entry["from"]["table_units"], entry["orderBy"], entry["select"]
    units = [query_from_dict(part, schema) if kind == "sql" else part + 1 for kind, part in sources]
    following = [(operator, query_from_dict(entry[operator], schema)) for operator in SET_OPERATORS if entry[operator]]
    return Query(
        select=tuple(SelectItem(aggregate, unit(parts)) for aggregate, parts in items),
        source=From(tuple(units), conditions(entry["from"]["conds"])),
        where=conditions(entry["where"]),
        group_by=tuple(map(column, entry["groupBy"])),
        having=conditions(entry["having"]),
        order_by=OrderBy(order[0], tuple(map(unit, order[1]))) if order else None,
        limit=entry["limit"],
        distinct=distinct,
        following=following[0] if following else None,
    )
