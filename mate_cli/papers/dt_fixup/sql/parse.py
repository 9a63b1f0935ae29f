"""Parser of SQL queries, which rejects queries with an unsupported part.

Source: taoyds/spider, `process_sql.py`, whose semantics are used: conditions are a flat list, a column without a table
belongs to the first table that has it, a table name has one meaning in the whole query, and a set operator belongs to
the last query. In addition, each column stores its position in FROM, so that the rewritten query returns the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mate_cli.errors import MissingDependencyError
from mate_cli.papers.dt_fixup.sql import ir
from mate_cli.papers.dt_fixup.sql.expressions import (
    AGGREGATE_KEYS,
    ExpressionReader,
    Scope,
    Tree,
    UnreadableQueryError,
    literal_number,
    write_text,
)
from mate_cli.papers.dt_fixup.sql.schema import STAR, Schema, fold, is_keyword

_MAX_DEPTH = 250
"""Maximum depth of a syntax tree. SQLite's limit is 1,000."""


def parse(sql: str, schema: Schema) -> ir.Query:
    """Parse an SQL query in SQLite's dialect, and resolve its names by the schema of a database.

    Raises:
        UnreadableQueryError: the query is invalid, uses names missing in the schema, or has a part that Spider's format
            lacks.
        MissingDependencyError: sqlglot is not installed.
    """
    try:
        import sqlglot
    except ModuleNotFoundError as error:
        problem = "reading SQL needs the package sqlglot"
        raise MissingDependencyError(problem, remedy="Install it: pip install sqlglot") from error
    try:
        _refuse_signs(sqlglot.tokenize(sql, read="sqlite"))
        tree = sqlglot.parse_one(sql.strip().rstrip(";"), read="sqlite")
    except UnreadableQueryError:
        raise
    except RecursionError as error:
        raise UnreadableQueryError("not SQL: nested too deep") from error
    except Exception as error:  # sqlglot raises arbitrary errors for some texts.
        raise UnreadableQueryError(f"not SQL: {next(iter(str(error).splitlines()), type(error).__name__)}") from error
    return read_tree(tree, schema, sql)


def read_tree(tree: Tree, schema: Schema, sql: str = "") -> ir.Query:
    """Convert the syntax tree of a whole query from sqlglot to the representation of `ir`.

    Args:
        tree: syntax tree of a whole query.
        schema: schema of the database.
        sql: text of the query, used to determine the quotes of names.

    Raises:
        UnreadableQueryError: see `parse`.
    """
    _refuse_depth(tree)
    try:
        reader = _Reader(schema, tree, sql)
        query = reader.query(tree)
    except (AttributeError, TypeError, LookupError) as error:  # Syntax trees differ between versions of sqlglot.
        raise UnreadableQueryError(f"an unknown form of syntax tree ({error!r})") from error
    reader.refuse_unread(tree)
    return query


def _refuse_signs(tokens: Sequence[Any]) -> None:
    """Raise `UnreadableQueryError` for a unary "+".

    A unary "+" changes how SQLite compares its operand, but it is missing in the syntax tree.
    """
    for previous, token in zip([None, *tokens], tokens, strict=False):
        if token.token_type.name == "PLUS" and not _ends_operand(previous):
            raise UnreadableQueryError("a + without a left operand")


def _ends_operand(token: Any) -> bool:  # noqa: ANN401 - a token of sqlglot, or None
    if token is None or token.token_type.name in ("STRING", "IDENTIFIER", "R_PAREN"):
        return token is not None
    return token.text.replace("_", "a").isalnum() and not is_keyword(token.text)


def _refuse_depth(tree: Tree) -> None:
    level, depth = [tree], 0
    while level:
        level = [child for node in level for child in node.iter_expressions()]
        depth += 1
        if depth > _MAX_DEPTH:
            raise UnreadableQueryError(f"it is nested too deep: more than {_MAX_DEPTH} levels")


class _Reader(ExpressionReader):
    """Converter of whole and nested queries from the syntax tree of sqlglot."""

    _depth = 0

    def query(self, tree: Tree) -> ir.Query:
        """Convert a query, or several queries joined by set operators such as UNION."""
        tree = self.bare(tree)
        self._depth += 1
        if self._depth > ir.MAX_NESTING:
            raise UnreadableQueryError(f"more than {ir.MAX_NESTING} nested queries")
        outer_scope = self.scope
        try:
            return self._join_queries(tree) if tree.key in ir.SET_OPERATORS else self._single(tree)
        finally:
            self._depth -= 1
            self.scope = outer_scope

    def _join_queries(self, tree: Tree) -> ir.Query:
        """Convert queries joined by set operators.

        ORDER BY and LIMIT are assigned to the last query.
        """
        parts = self._chain(tree)
        if len(parts) > ir.MAX_NESTING:
            raise UnreadableQueryError(f"more than {ir.MAX_NESTING} queries joined by set operators")
        queries: list[ir.Query] = []
        aliases: set[str] = set()
        for _, part in parts:
            queries.append(self._single(part))
            aliases |= self.scope.aliases.keys()
        last_query = queries[-1]
        self.scope.aliases = dict.fromkeys(aliases)
        order, limit = self._order_by(tree.args.get("order")), self._limit(tree.args.get("limit"))
        if order:
            self._refuse_other_columns(order, queries)
        limit = last_query.limit if limit is None else limit
        last_query = replace(last_query, order_by=order or last_query.order_by, limit=limit)
        for (operator, _), query in zip(reversed(parts[1:]), reversed(queries[:-1]), strict=True):
            last_query = replace(query, following=(operator, last_query))
        return last_query

    def _chain(self, tree: Tree, *, nested: bool = False) -> list[tuple[str, Tree]]:
        """Flatten nested set operations to a list of (operator, query), from left to right.

        The operator of the first query is "".
        """
        outside, tree = tree, self.bare(tree)
        if tree.key not in ir.SET_OPERATORS:
            if tree is not outside and (tree.args.get("order") or tree.args.get("limit")):
                raise UnreadableQueryError("ORDER BY or LIMIT of a query in a set operation")
            return [("", tree)]
        self.take(tree, *ir.SET_OPERATORS)
        if nested and (tree.args.get("order") or tree.args.get("limit")):
            raise UnreadableQueryError("ORDER BY or LIMIT of a query in a set operation")
        if not tree.args.get("distinct", True):
            raise UnreadableQueryError(f"{tree.key.upper()} ALL")
        head, right = self._chain(tree.this, nested=True), self._chain(tree.expression, nested=True)
        (_, second), *tail = right
        return [*head, (tree.key, second), *tail]

    def _refuse_other_columns(self, order: ir.OrderBy, queries: Sequence[ir.Query]) -> None:
        """Raise `UnreadableQueryError` if the ORDER BY of a set operation is ambiguous.

        An ORDER BY is ambiguous if it names different columns of the first and the last query.
        """
        if any(item.unit.left == ir.ColumnUnit(0, STAR) and not item.aggregate for q in queries for item in q.select):
            raise UnreadableQueryError("ORDER BY after set operators of all columns")
        for unit in order.units:
            target = self._column_key(0, unit)
            names = [[self._column_key(item.aggregate, item.unit) for item in query.select] for query in queries]
            indices = [query_names.index(target) if target in query_names else None for query_names in names]
            first = next((index for index in indices if index is not None), None)
            if indices[-1] != first:
                raise UnreadableQueryError("an ORDER BY that is of another column in the last query")

    def _column_key(self, aggregate: int, unit: ir.ValueUnit) -> tuple[object, ...]:
        columns = (
            (aggregate or c.aggregate, c.distinct, fold(self.schema.columns[c.column].original)) for c in unit.columns()
        )
        return (unit.operator, *columns)

    def _single(self, tree: Tree) -> ir.Query:
        if tree.key != "select":
            raise UnreadableQueryError(f"it begins with {tree.key.upper()}, not with SELECT")
        self.take(tree, "select")
        if not tree.expressions:
            raise UnreadableQueryError("it selects nothing")
        self.scope = Scope()
        source = self._source(tree)
        items = tuple(map(self._item, tree.expressions))
        group, distinct = tree.args.get("group"), tree.args.get("distinct")
        return ir.Query(
            select=items,
            source=source,
            where=self.clause(tree.args.get("where"), "where"),
            group_by=tuple(map(self.column, self.take(group, "group").expressions)) if group else (),
            having=self.clause(tree.args.get("having"), "having"),
            order_by=self._order_by(tree.args.get("order")),
            limit=self._limit(tree.args.get("limit")),
            distinct=bool(distinct and not self.take(distinct, "distinct").expressions),
        )

    def _source(self, tree: Tree) -> ir.From:
        first = tree.args.get("from_") or tree.args.get("from")
        if first is None:
            raise UnreadableQueryError("FROM is missing")
        joins = tree.args.get("joins") or []
        self.take(first, "from")
        for join in joins:
            if join.side or join.args.get("kind") not in (None, "", "INNER", "CROSS"):
                raise UnreadableQueryError(f"{join.side or join.kind} of a join")
            self.take(join, "join")
        units = [self._table(part.this) for part in (first, *joins)]
        items: list[ir.Condition] = []
        connectors: list[str] = []
        clauses = [join.args["on"] for join in joins if not self._is_always(join.args.get("on"))]
        for clause in clauses:
            conditions = self.conditions(clause)
            if len(clauses) > 1 and "or" in conditions.connectors:
                raise UnreadableQueryError("OR in one of several ON")
            connectors += ["and"] * bool(items) + list(conditions.connectors)
            items += conditions.items
        return ir.From(tuple(units), ir.Conditions(tuple(items), tuple(connectors)))

    def _table(self, tree: Tree) -> int | ir.Query:
        if tree.key == "subquery":
            self._take_alias(self.take(tree, tree.key))
            query = self.query(tree.this)
            self.scope.add(None, tree.alias, "")
            return query
        if tree.key != "table" or tree.this.key != "identifier":
            raise UnreadableQueryError(f"FROM names {write_text(tree)}")
        self._take_alias(self.take(tree, tree.key))
        self.take(tree.this, "identifier")
        number = self.schema.find_table(tree.name)
        if number is None:
            raise UnreadableQueryError(f"there is no table {tree.name}")
        if tree.alias and self.schema.find_table(tree.alias) not in (None, number):
            raise UnreadableQueryError(f"{tree.alias} is also the name of another table")
        self.scope.add(number, tree.alias, tree.name)
        return number

    def _take_alias(self, tree: Tree) -> None:
        alias = tree.args.get("alias")
        if alias:
            self.take(self.take(alias, "tablealias").this, "identifier")

    def _item(self, tree: Tree) -> ir.SelectItem:
        if tree.key != "alias":
            return self._result(tree)
        self.take(self.take(tree, "alias").args["alias"], "identifier")
        item = self._result(tree.this)
        is_column = not (item.aggregate or item.unit.operator or item.unit.left.aggregate)
        self.scope.aliases[fold(tree.alias)] = item.unit.left if is_column else None
        return item

    def _result(self, tree: Tree) -> ir.SelectItem:
        if tree.key not in AGGREGATE_KEYS:
            return ir.SelectItem(0, self.unit(tree, star=True))
        operand, distinct = self.argument(tree)
        unit = self.unit(operand, star=tree.key == "count" and not distinct)
        unit = replace(unit, left=replace(unit.left, distinct=distinct)) if distinct else unit
        return ir.SelectItem(ir.AGGREGATES.index(tree.key), unit)

    def _order_by(self, tree: Tree | None) -> ir.OrderBy | None:
        if tree is None:
            return None
        self.take(tree, "order")
        directions = set()
        for expression in tree.expressions:
            self.take(expression, "ordered")
            directions.add(descending := bool(expression.args.get("desc")))
            if bool(expression.args.get("nulls_first")) == descending:  # NULL is the smallest value in SQLite.
                raise UnreadableQueryError(f"NULLS FIRST or LAST: {write_text(expression)}")
        if len(directions) > 1:
            raise UnreadableQueryError("ORDER BY in two directions")
        units = tuple(self._ordering(expression.this) for expression in tree.expressions)
        return ir.OrderBy("desc" if True in directions else "asc", units)

    def _ordering(self, tree: Tree) -> ir.ValueUnit:
        unit, tree = self.unit(tree), self.bare(tree)
        is_name = tree.key == "column" and not tree.args.get("table")
        if is_name and (name := fold(tree.name)) in self.scope.aliases:
            aliased = self.scope.aliases[name]
            if aliased is None or (aliased.column, aliased.place) != (unit.left.column, unit.left.place):
                raise UnreadableQueryError(f"ORDER BY {tree.name}, which is a column and another column's name")
        return unit

    def _limit(self, tree: Tree | None) -> int | None:
        if tree is None:
            return None
        number = tree.expression
        if tree.key != "limit" or number is None or number.key != "literal" or number.is_string:
            raise UnreadableQueryError("a LIMIT that is not a number")
        self.take(self.take(tree, "limit").expression, "literal")
        limit = literal_number(number.name)
        if not isinstance(limit, int):
            raise UnreadableQueryError("a LIMIT that is not a whole number")
        return limit

    def _is_always(self, condition: Tree | None) -> bool:
        """Return whether a join has no condition, so that it pairs all rows of both tables.

        If the next ON belongs to both joins, sqlglot inserts the condition TRUE.
        """
        if condition is None:
            return True
        return condition.key == "boolean" and self.take(condition, "boolean").this is True
