"""Writer of queries as SQL for SQLite, with table aliases and join conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from mate_cli.papers.dt_fixup.sql import ir
from mate_cli.papers.dt_fixup.sql.schema import STAR, Schema, fold, quote_identifier


def write(query: ir.Query, schema: Schema) -> str:
    """Format a parsed query as one line of SQL.

    `parse` returns the same query, except for the quotes of values.
    """
    return _Writer(schema).query(query)


class _Writer:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        table_names = {fold(table.original) for table in schema.tables}
        self._aliases = (f"T{number}" for number in count(1) if f"t{number}" not in table_names)
        self._units: Sequence[int | ir.Query] = ()
        self._scope: list[str] = []  # Aliases of the units written so far, empty for a single table.

    def query(self, query: ir.Query) -> str:
        parts = list(self._single(query))
        if query.following:
            parts += [query.following[0].upper(), self.query(query.following[1])]
        return " ".join(parts)

    def _single(self, query: ir.Query) -> Iterator[str]:
        outer_state = self._units, self._scope
        self._units, self._scope = query.source.units, []
        source = self._source(query)
        yield "SELECT DISTINCT" if query.distinct else "SELECT"
        yield ", ".join(_aggregated(item.aggregate, self._unit(item.unit), distinct=False) for item in query.select)
        yield source
        yield from self._clause("WHERE", query.where)
        if query.group_by:
            yield "GROUP BY " + ", ".join(map(self._column, query.group_by))
        yield from self._clause("HAVING", query.having)
        if query.order_by:
            direction = f" {query.order_by.direction.upper()}"
            yield "ORDER BY " + ", ".join(self._unit(unit) + direction for unit in query.order_by.units)
        if query.limit is not None:
            yield f"LIMIT {query.limit}"
        self._units, self._scope = outer_state

    def _source(self, query: ir.Query) -> str:
        """Format the FROM clause of a query as SQL, with its joins.

        Each join condition follows the first table that completes it.
        """
        units, joins = query.source.units, query.source.joins
        if len(units) == 1 and isinstance(units[0], int):
            return f"FROM {quote_identifier(self._original(units[0]))}"
        text, first = "FROM ", 0
        for index, unit in enumerate(units):
            text += " JOIN " * bool(index) + self._named_unit(unit)
            end = first
            while end < len(joins) and (index == len(units) - 1 or self._is_known(joins, end)):
                end += 1
            if index and end > first:
                on = [self._condition(condition, is_join=True) for condition in joins.items[first:end]]
                text += " ON " + _chained(on, joins.connectors[first : end - 1])
                first = end
        return text

    def _is_known(self, joins: ir.Conditions, number: int) -> bool:
        """Return whether FROM already lists all tables of a join condition.

        Only then the condition can be written. If any join condition follows an "or", all conditions are written after
        the last table.
        """
        indices = self._join_indices(joins.items[number])
        return "or" not in joins.connectors and all(end < len(self._scope) for end in indices)

    def _join_indices(self, join: ir.Condition) -> list[int]:
        """Return the indices in FROM of the tables that a join condition refers to."""
        columns = [self._locate(unit) for unit in join.unit.columns()]
        columns += [self._locate(join.value, final=self._is_own(join))] if isinstance(join.value, ir.ColumnUnit) else []
        return [index for index in columns if index is not None]

    def _is_own(self, join: ir.Condition) -> bool:
        """Return whether a condition joins a table with itself."""
        tables = {self._schema.columns[unit.column].table for unit in (join.unit.left, join.value)}  # type: ignore[union-attr]
        return len(tables) == 1

    def _locate(self, unit: ir.ColumnUnit, *, final: bool = False) -> int | None:
        """Return the index in FROM of the table of a column: its last occurrence if `final`, else the first."""
        if unit.place is not None:
            return unit.place
        table = self._schema.columns[unit.column].table
        indices = [index for index, source in enumerate(self._units) if source == table]
        return indices[-1 if final else 0] if indices else None

    def _named_unit(self, unit: int | ir.Query) -> str:
        alias = next(self._aliases)
        self._scope.append(alias)
        if isinstance(unit, ir.Query):
            return f"({self.query(unit)}) AS {alias}"
        return f"{quote_identifier(self._original(unit))} AS {alias}"

    def _original(self, table: int) -> str:
        return self._schema.tables[table].original

    def _unit(self, unit: ir.ValueUnit) -> str:
        return f" {ir.UNIT_OPERATORS[unit.operator]} ".join(map(self._column, unit.columns()))

    def _column(self, unit: ir.ColumnUnit, *, final: bool = False) -> str:
        return _aggregated(unit.aggregate, self._name(unit, final=final), distinct=unit.distinct)

    def _name(self, unit: ir.ColumnUnit, *, final: bool) -> str:
        column = self._schema.columns[unit.column]
        if unit.column == STAR or column.original == "*":
            return "*"
        name, index = quote_identifier(column.original), self._locate(unit, final=final)
        if index is not None and index < len(self._scope):
            return f"{self._scope[index]}.{name}"
        return name if name == column.original else f"{quote_identifier(self._original(column.table))}.{name}"

    def _clause(self, word: str, conditions: ir.Conditions) -> Iterator[str]:
        if conditions:
            yield f"{word} {_chained([self._condition(condition) for condition in conditions], conditions.connectors)}"

    def _condition(self, condition: ir.Condition, *, is_join: bool = False) -> str:
        sign = ir.OPERATORS[condition.operator].upper()
        value = condition.value
        if is_join and isinstance(value, ir.ColumnUnit):
            text = self._column(value, final=self._is_own(condition))
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
            text = repr(value)
        else:
            text = sql_literal(value)
        return f"({text})" if bracketed else text


def _aggregated(number: int, column_text: str, *, distinct: bool) -> str:
    column_text = f"DISTINCT {column_text}" if distinct else column_text
    return column_text if not number else f"{ir.AGGREGATES[number]}({column_text})"


def _chained(texts: Sequence[str], connectors: Sequence[str]) -> str:
    parts = (f" {connector.upper()} {text}" for connector, text in zip(connectors, texts[1:], strict=True))
    return texts[0] + "".join(parts)


def sql_literal(value: str | None) -> str:
    """Format a text as an SQL string in single quotes. Double quotes around the text are removed."""
    text = value or ""
    unquoted = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    return "'{}'".format(unquoted.replace("'", "''"))
