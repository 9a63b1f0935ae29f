"""Queries in the layout of Spider, to see that reading them loses nothing."""

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


def query_to_dict(query, schema):
    """The query in the layout of Spider, of lists and plain values."""
    return Written(schema).query(query)


class Written:
    def __init__(self, schema):
        self._stars = len(schema.tables)

    def query(self, query):
        order = query.order_by
        units = [["sql", self.query(u)] if isinstance(u, Query) else ["table_unit", u - 1] for u in query.source.units]
        return {
            "from": {"table_units": units, "conds": self._conditions(query.source.joins)},
            "select": [query.distinct, [[item.aggregate, self._unit(item.unit)] for item in query.select]],
            "where": self._conditions(query.where),
            "groupBy": [self._column(unit) for unit in query.group_by],
            "having": self._conditions(query.having),
            "orderBy": [order.direction, [self._unit(unit) for unit in order.units]] if order else [],
            "limit": query.limit,
            **dict.fromkeys(SET_OPERATORS),
            **({query.following[0]: self.query(query.following[1])} if query.following else {}),
        }

    def _column(self, unit):
        return [unit.aggregate, max(STAR, unit.column - self._stars + 1), unit.distinct]

    def _unit(self, unit):
        return [unit.operator, self._column(unit.left), self._column(unit.right) if unit.right else None]

    def _conditions(self, conditions):
        parts = []
        for place, item in enumerate(conditions.items):
            parts += [conditions.connectors[place - 1]] if place else []
            unit, value, second = self._unit(item.unit), self._value(item.value), self._value(item.second)
            parts.append([item.negated, item.operator, unit, value, second])
        return parts

    def _value(self, value):
        if isinstance(value, Query):
            return self.query(value)
        return self._column(value) if isinstance(value, ColumnUnit) else value


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

    units = [
        query_from_dict(part, schema) if kind == "sql" else part + 1 for kind, part in entry["from"]["table_units"]
    ]
    order, distinct, following = entry["orderBy"], *entry["select"][:1], [w for w in SET_OPERATORS if entry[w]]
    return Query(
        select=tuple(SelectItem(aggregate, unit(parts)) for aggregate, parts in entry["select"][1]),
        source=From(tuple(units), conditions(entry["from"]["conds"])),
        where=conditions(entry["where"]),
        group_by=tuple(map(column, entry["groupBy"])),
        having=conditions(entry["having"]),
        order_by=OrderBy(order[0], tuple(map(unit, order[1]))) if order else None,
        limit=entry["limit"],
        distinct=distinct,
        following=(following[0], query_from_dict(entry[following[0]], schema)) if following else None,
    )
