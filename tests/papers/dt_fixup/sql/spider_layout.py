"""Queries in the layout of Spider, to see that reading them loses nothing."""

from __future__ import annotations

from mate_cli.papers.dt_fixup.sql.ir import SET_OPERATORS, ColumnUnit, Query
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
