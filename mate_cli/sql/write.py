"""Write queries as SQL that SQLite runs: tables with short names, each join with its condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from mate_cli.sql import ir
from mate_cli.sql.names import quoted_identifier
from mate_cli.sql.schema import STAR, Schema


def write(query: ir.Query, schema: Schema) -> str:
    """One line of SQL; `parse` reads the same query from it, but for what a value is quoted with."""
    return _Writer(schema).query(query)


class _Writer:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._aliases = (f"T{number}" for number in count(1))
        self._named: dict[int, list[str]] = {}

    def query(self, query: ir.Query) -> str:
        parts = list(self._single(query))
        if following := query.following():
            parts += [following[0].upper(), self.query(following[1])]
        return " ".join(parts)

    def _single(self, query: ir.Query) -> Iterator[str]:
        outer, self._named = self._named, {}
        source = self._source(query)
        yield "SELECT DISTINCT" if query.distinct else "SELECT"
        yield ", ".join(_aggregated(one.aggregate, self._unit(one.unit), distinct=False) for one in query.select)
        yield source
        yield from self._clause("WHERE", query.where)
        if query.group_by:
            yield "GROUP BY " + ", ".join(map(self._column, query.group_by))
        yield from self._clause("HAVING", query.having)
        if query.order_by:
            yield "ORDER BY " + ", ".join(map(self._unit, query.order_by.units))
            yield query.order_by.direction.upper()
        if query.limit is not None:
            yield f"LIMIT {query.limit}"
        self._named = outer

    def _source(self, query: ir.Query) -> str:
        """Tables and conditions of joins in their order, each condition as soon as its tables are there."""
        units, joins = query.source.units, query.source.joins
        if len(units) == 1 and isinstance(units[0], int):
            return f"FROM {quoted_identifier(self._original(units[0]))}"
        text, first = "FROM ", 0
        for place, unit in enumerate(units):
            text += " JOIN " * bool(place) + self._named_unit(unit)
            end = first
            while end < len(joins) and (place == len(units) - 1 or self._is_known(joins, end)):
                end += 1
            if place and end > first:
                on = [self._condition(one, joins=True) for one in joins.items[first:end]]
                text += " ON " + _chained(on, joins.connectors[first : end - 1])
                first = end
        return text

    def _tables_of(self, join: ir.Condition) -> set[int]:
        ends = (*join.unit.columns(), *((join.value,) if isinstance(join.value, ir.ColumnUnit) else ()))
        return {self._schema.columns[end.column].table for end in ends}

    def _is_known(self, joins: ir.Conditions, place: int) -> bool:
        """Whether the tables of a condition are named already; those after an "or" belong to the last table."""
        tables = self._tables_of(joins.items[place])
        again = len(tables) == 1 and isinstance(joins.items[place].value, ir.ColumnUnit)
        return "or" not in joins.connectors and all(len(self._named.get(table, ())) > again for table in tables)

    def _named_unit(self, unit: int | ir.Query) -> str:
        alias = next(self._aliases)
        if isinstance(unit, ir.Query):
            return f"({self.query(unit)}) AS {alias}"
        self._named.setdefault(unit, []).append(alias)
        return f"{quoted_identifier(self._original(unit))} AS {alias}"

    def _original(self, table: int) -> str:
        return self._schema.tables[table].original

    def _unit(self, unit: ir.ValueUnit) -> str:
        return f" {ir.UNIT_OPERATORS[unit.operator]} ".join(map(self._column, unit.columns()))

    def _column(self, unit: ir.ColumnUnit, *, last: bool = False) -> str:
        return _aggregated(unit.aggregate, self._name(unit.column, last=last), distinct=unit.distinct)

    def _name(self, column: int, *, last: bool) -> str:
        found = self._schema.columns[column]
        if column == STAR or found.original == "*":
            return "*"
        aliases = self._named.get(found.table)
        if not aliases:
            name = quoted_identifier(found.original)
            return name if name == found.original else f"{quoted_identifier(self._original(found.table))}.{name}"
        return f"{aliases[-1 if last else 0]}.{quoted_identifier(found.original)}"

    def _clause(self, word: str, conditions: ir.Conditions) -> Iterator[str]:
        if conditions:
            yield f"{word} {_chained([self._condition(one) for one in conditions], conditions.connectors)}"

    def _condition(self, condition: ir.Condition, *, joins: bool = False) -> str:
        sign = ir.OPERATORS[condition.operator].upper()
        value = condition.value
        if joins and isinstance(value, ir.ColumnUnit):
            text = self._column(value, last=True)
        else:
            text = self._value(value, bracketed=sign == "IN")
        parts = [self._unit(condition.unit), *["NOT"] * condition.negated, sign, text]
        if sign == "BETWEEN":
            parts += ["AND", self._value(condition.second)]
        return " ".join(parts)

    def _value(self, value: ir.Value, *, bracketed: bool = False) -> str:
        if isinstance(value, ir.Query):
            return f"({self.query(value)})"
        if isinstance(value, ir.ColumnUnit):
            text = self._column(value)
        elif isinstance(value, float | int):
            text = f"{value:.15g}"
        else:
            text = sql_literal(value)
        return f"({text})" if bracketed else text


def _aggregated(number: int, inner: str, *, distinct: bool) -> str:
    inner = f"DISTINCT {inner}" if distinct else inner
    return inner if not number else f"{ir.AGGREGATES[number]}({inner})"


def _chained(texts: Sequence[str], connectors: Sequence[str]) -> str:
    rest = (f" {connector.upper()} {text}" for connector, text in zip(connectors, texts[1:], strict=True))
    return texts[0] + "".join(rest)


def sql_literal(value: str | None) -> str:
    """A text in single quotes; those of the other kind around it are not its own."""
    text = value or ""
    inside = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    return "'{}'".format(inside.replace("'", "''"))
