"""Read SQL as people write it.

Source: taoyds/spider, `process_sql.py`, whose reading this is: conditions are a flat list, a column without a table is
of the first table that has it, what stands in double quotes is a value, and a set operator is of the last query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from mate_cli.errors import MissingDependencyError
from mate_cli.sql import ir
from mate_cli.sql.schema import STAR, Schema

_AGGREGATE_KEYS = ("max", "min", "count", "sum", "avg")
_UNIT_KEYS = {"sub": "-", "add": "+", "mul": "*", "div": "/"}
_COMPARISON_KEYS = {"eq": "=", "gt": ">", "lt": "<", "gte": ">=", "lte": "<=", "neq": "!=", "like": "like"}

Tree = Any
"""A node of sqlglot's syntax trees."""


class UnreadableQueryError(ValueError):
    """A text is no query that can be read; the message says why."""


def parse(sql: str, schema: Schema) -> ir.Query:
    """Read a query of SQLite's dialect about one database.

    Raises:
        UnreadableQueryError: it is damaged, names what the schema lacks, or has a part that Spider's layout lacks.
        MissingDependencyError: sqlglot is not installed.
    """
    try:
        import sqlglot
        from sqlglot.errors import SqlglotError
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "SQL is read by the package sqlglot", remedy="pip install 'mate-cli[text_to_sql]'"
        ) from error
    try:
        tree = sqlglot.parse_one(sql.strip().rstrip(";"), read="sqlite")
    except (SqlglotError, RecursionError) as error:
        raise UnreadableQueryError(
            f"no SQL: {str(error).splitlines()[0] if str(error) else 'nested too deep'}"
        ) from error
    return _Reader(schema, tree).query(tree)


class _Reader:
    """Lowers a syntax tree. Names of tables in the whole tree hold where a nested query has none of its own."""

    def __init__(self, schema: Schema, tree: Tree) -> None:
        self._schema = schema
        self._names: dict[str, int | None] = {}  # tables by what the query calls them; None for a nested query
        tables = (node for node in tree.walk() if node.key == "table")
        self._everywhere = {name: number for table in tables for name, number in self._named(table)}

    def query(self, tree: Tree) -> ir.Query:
        """Read a query, or several that set operators join."""
        tree = _bare(tree)
        if tree.key in ir.SET_OPERATORS:
            if not tree.args.get("distinct", True):
                raise UnreadableQueryError(f"{tree.key.upper()} ALL")
            return self._joined(tree)
        if tree.key != "select":
            raise UnreadableQueryError(f"it begins with {tree.key.upper()}, not with SELECT")
        _refuse(
            tree, ("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "distinct", "kind")
        )
        outer, self._names = self._names, {}
        try:
            return self._single(tree)
        finally:
            self._names = outer

    def _joined(self, tree: Tree) -> ir.Query:
        """Queries one after the other: what orders and limits them all is taken to be of the last one."""
        parts = _chain(tree)
        operators, queries = [key for key, _ in parts[1:]], [self.query(part) for _, part in parts]
        last = queries[-1]
        last = replace(last, order_by=self._order(tree, last) or last.order_by, limit=_limit(tree) or last.limit)
        for operator, query in zip(reversed(operators), reversed(queries[:-1]), strict=True):
            last = query.followed_by(operator, last)
        return last

    def _single(self, tree: Tree) -> ir.Query:
        source = self._source(tree)
        items = tuple(map(self._item, tree.expressions))
        group = tree.args.get("group")
        return ir.Query(
            select=items,
            source=source,
            where=self._clause(tree.args.get("where")),
            group_by=tuple(map(self._column, group.expressions)) if group else (),
            having=self._clause(tree.args.get("having")),
            order_by=self._ordered(tree.args.get("order")),
            limit=_limit(tree),
            distinct=bool(tree.args.get("distinct")),
        )

    def _order(self, tree: Tree, last: ir.Query) -> ir.OrderBy | None:
        """What orders the result of set operators; its columns are those of the tables of the last query."""
        outer = self._names
        self._names = {self._schema.tables[table].original.lower(): table for table in last.source.tables}
        try:
            return self._ordered(tree.args.get("order"))
        finally:
            self._names = outer

    def _source(self, tree: Tree) -> ir.From:
        first = tree.args.get("from_") or tree.args.get("from")
        if first is None:
            raise UnreadableQueryError("there is no FROM")
        joins = tree.args.get("joins") or []
        for join in joins:
            if join.side or join.kind not in ("", "INNER", "CROSS") or join.args.get("using"):
                raise UnreadableQueryError(f"{join.side or join.kind or 'USING'} of a join")
        units = [self._table(part.this) for part in (first, *joins)]
        items: list[ir.Condition] = []
        connectors: list[str] = []
        for condition in (join.args["on"] for join in joins if not _always(join.args.get("on"))):
            found = self._conditions(condition)
            connectors += ["and"] * bool(items) + list(found.connectors)
            items += found.items
        return ir.From(tuple(units), ir.Conditions(tuple(items), tuple(connectors)))

    def _table(self, tree: Tree) -> int | ir.Query:
        if tree.key == "subquery":
            self._names[tree.alias.lower()] = None
            return self.query(tree)
        if tree.key != "table":
            raise UnreadableQueryError(f"FROM names a {tree.key}")
        number = self._schema.table_named(tree.name)
        if number is None:
            raise UnreadableQueryError(f"there is no table {tree.name}")
        self._names |= self._named(tree)
        return number

    def _named(self, tree: Tree) -> Iterator[tuple[str, int | None]]:
        """What a table is called in a query: its alias, and its own name behind those of others."""
        number = self._schema.table_named(tree.name)
        yield from ((name.lower(), number) for name in dict.fromkeys((tree.alias, tree.name)) if name)

    def _item(self, tree: Tree) -> ir.SelectItem:
        tree = tree.this if tree.key == "alias" else tree
        if tree.key not in _AGGREGATE_KEYS:
            return ir.SelectItem(0, self._unit(tree))
        inner, distinct = _argument(tree)
        unit = self._unit(inner)
        unit = replace(unit, left=replace(unit.left, distinct=distinct)) if distinct else unit
        return ir.SelectItem(ir.AGGREGATES.index(tree.key), unit)

    def _unit(self, tree: Tree) -> ir.ValueUnit:
        tree = _bare(tree)
        sign = _UNIT_KEYS.get(tree.key)
        if sign is None:
            return ir.ValueUnit(0, self._column(tree))
        return ir.ValueUnit(ir.UNIT_OPERATORS.index(sign), self._column(tree.left), self._column(tree.right))

    def _column(self, tree: Tree) -> ir.ColumnUnit:
        tree = _bare(tree)
        if tree.key in _AGGREGATE_KEYS:
            inner, distinct = _argument(tree)
            return ir.ColumnUnit(ir.AGGREGATES.index(tree.key), self._number(inner), distinct)
        if tree.key == "distinct" and len(tree.expressions) == 1:
            return ir.ColumnUnit(0, self._number(tree.expressions[0]), True)
        return ir.ColumnUnit(0, self._number(tree))

    def _number(self, tree: Tree) -> int:
        tree = _bare(tree)
        if tree.key == "star" or (tree.key == "column" and tree.name == "*"):
            return STAR
        if tree.key != "column":
            raise UnreadableQueryError(f"{tree.sql(dialect='sqlite')} is no column")
        for tables in self._places(tree.table.lower()):
            found = self._schema.column_named(tree.name, tables)
            if found is not None:
                return found
        raise UnreadableQueryError(f"there is no column {tree.sql(dialect='sqlite')}")

    def _places(self, name: str) -> Iterator[list[int]]:
        """The tables that a column may be of; a name holds everywhere, and means the last table that was given it."""
        if not name:
            yield list(dict.fromkeys(number for number in self._names.values() if number is not None))
        for names in (self._everywhere, self._names):
            number = names.get(name)
            yield [] if number is None else [number]

    def _clause(self, tree: Tree | None) -> ir.Conditions:
        return self._conditions(tree.this) if tree else ir.Conditions()

    def _conditions(self, tree: Tree) -> ir.Conditions:
        """Conditions in the order of the text."""
        if tree.key not in ("and", "or"):
            return ir.Conditions((self._condition(tree),))
        left, right = self._conditions(tree.left), self._conditions(tree.right)
        return ir.Conditions((*left.items, *right.items), (*left.connectors, tree.key, *right.connectors))

    def _condition(self, tree: Tree) -> ir.Condition:
        negated = tree.key == "not"
        tree = tree.this if negated else tree
        negated ^= bool(tree.args.get("negate"))  # of LIKE, in newer versions of sqlglot
        if tree.key == "paren":
            raise UnreadableQueryError("conditions in brackets")
        if tree.key == "between":
            ends = self._value(tree.args["low"]), self._value(tree.args["high"])
            return ir.Condition(negated, ir.OPERATORS.index("between"), self._unit(tree.this), *ends)
        if tree.key == "in":
            return ir.Condition(negated, ir.OPERATORS.index("in"), self._unit(tree.this), self._members(tree))
        if tree.key not in _COMPARISON_KEYS:
            raise UnreadableQueryError(f"the condition {tree.sql(dialect='sqlite')}")
        sign = _COMPARISON_KEYS[tree.key]
        return ir.Condition(negated, ir.OPERATORS.index(sign), self._unit(tree.left), self._value(tree.right))

    def _members(self, tree: Tree) -> ir.Value:
        query = tree.args.get("query")
        if query is not None:
            return self.query(query)
        if len(tree.expressions) != 1:
            raise UnreadableQueryError("IN with several values")
        return self._value(tree.expressions[0])

    def _value(self, tree: Tree) -> ir.Value:
        tree = _bare(tree)
        if tree.key == "select" or tree.key in ir.SET_OPERATORS:
            return self.query(tree)
        if tree.key == "neg" and tree.this.key == "literal":
            return -float(tree.this.name)
        if tree.key == "literal":
            return f'"{tree.name}"' if tree.is_string else float(tree.name)
        if tree.key == "column" and not tree.table and tree.this.args.get("quoted"):
            return f'"{tree.name}"'
        return self._column(tree)

    def _ordered(self, tree: Tree | None) -> ir.OrderBy | None:
        if tree is None:
            return None
        directions = ["desc" if one.args.get("desc") else "asc" for one in tree.expressions]
        said = [one.args.get("desc") is not None for one in tree.expressions]
        last = next((d for d, s in zip(reversed(directions), reversed(said), strict=True) if s), "asc")
        return ir.OrderBy(last, tuple(self._unit(one.this) for one in tree.expressions))


def _bare(tree: Tree) -> Tree:
    while tree.key in ("paren", "subquery"):
        tree = tree.this
    return tree


def _chain(tree: Tree) -> list[tuple[str, Tree]]:
    """The queries that set operators join, from left to right, each but the first with its operator."""
    if tree.key not in ir.SET_OPERATORS:
        return [("", tree)]
    (_, second), *others = _chain(_bare(tree.expression))
    return [*_chain(_bare(tree.this)), (tree.key, second), *others]


def _argument(tree: Tree) -> tuple[Tree, bool]:
    """What is aggregated, and whether each value counts once."""
    inner = tree.this
    if inner is None or tree.expressions:
        raise UnreadableQueryError(f"{tree.key.upper()} of several things")
    if inner.key == "distinct":
        if len(inner.expressions) != 1:
            raise UnreadableQueryError(f"{tree.key.upper()} of several things")
        return inner.expressions[0], True
    return inner, False


def _always(condition: Tree | None) -> bool:
    """Whether tables are joined without a condition; where the next ON stands for both, sqlglot says TRUE."""
    return condition is None or condition.key == "boolean"


def _limit(tree: Tree) -> int | None:
    limit = tree.args.get("limit")
    if limit is None:
        return None
    if limit.expression is None or limit.expression.key != "literal" or limit.expression.is_string:
        raise UnreadableQueryError("a LIMIT that is no number")
    try:
        return int(limit.expression.name)
    except ValueError as error:
        raise UnreadableQueryError("a LIMIT that is no whole number") from error


def _refuse(tree: Tree, known: Sequence[str]) -> None:
    """Refuse a query with parts of which Spider's layout has nothing."""
    other = next((name for name, part in tree.args.items() if part and name not in (*known, "from", "hint")), None)
    if other:
        raise UnreadableQueryError(f"{other.upper()} of a query")
