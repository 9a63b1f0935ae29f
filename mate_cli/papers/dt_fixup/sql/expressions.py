"""Conversion of columns, values and conditions from sqlglot's syntax trees."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mate_cli.papers.dt_fixup.sql import ir
from mate_cli.papers.dt_fixup.sql.schema import STAR, Schema, fold

AGGREGATE_KEYS = ("max", "min", "count", "sum", "avg")
_UNIT_KEYS = {"sub": "-", "add": "+", "mul": "*", "div": "/"}
_COMPARISON_KEYS = {"eq": "=", "gt": ">", "lt": "<", "gte": ">=", "lte": "<=", "neq": "!=", "like": "like"}
_NEGATED = ("in", "like", "between")
_OPERANDS = ("this", "expression")
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "select": ("expressions", "from_", "from", "joins", "where", "group", "having", "order", "limit", "distinct"),
    **dict.fromkeys(ir.SET_OPERATORS, (*_OPERANDS, "distinct", "order", "limit")),
    **dict.fromkeys(("from", "where", "having", "not", "neg", "paren", "boolean", "tablealias"), ("this",)),
    **dict.fromkeys(("subquery", "table", "alias"), ("this", "alias")),
    **dict.fromkeys(("group", "order", "distinct"), ("expressions",)),
    **dict.fromkeys(("and", "or", *_UNIT_KEYS, *_COMPARISON_KEYS), _OPERANDS),
    **dict.fromkeys(AGGREGATE_KEYS, ("this",)),
    "join": ("this", "kind", "on"),
    "ordered": ("this", "desc", "nulls_first"),
    "limit": ("expression",),
    "identifier": ("this", "quoted"),
    "column": ("this", "table"),
    "literal": ("this", "is_string"),
    "star": (),
    "between": ("this", "low", "high"),
    "in": ("this", "query", "expressions"),
    "like": (*_OPERANDS, "negate"),
    "count": ("this", "big_int"),
    "div": (*_OPERANDS, "typed", "safe"),
}
"""Supported node types of sqlglot, each with its supported arguments.

A query with any other type or argument is rejected.
"""
_MAX_DIGITS = 15
"""Maximum number of digits of decimal numbers.

With at most 15 digits, numbers are exact in every floating-point arithmetic.
"""

Tree = Any
"""A node of sqlglot's syntax trees."""


class UnreadableQueryError(ValueError):
    """A query that cannot be read. The message contains the reason."""


@dataclass(eq=False)
class Scope:
    """The tables and aliases that one query (whole or nested) defines in its FROM clause.

    Args:
        units: tables of FROM in order; None for a nested query.
        indices: index in `units` by name or alias.
        aliases: result columns by alias; None for a result that is not a plain column.
    """

    units: list[int | None] = field(default_factory=list)
    indices: dict[str, int] = field(default_factory=dict)
    aliases: dict[str, ir.ColumnUnit | None] = field(default_factory=dict)

    def add(self, number: int | None, alias: str, name: str) -> None:
        """Add a table or nested query of FROM to the names that are visible in the query.

        Args:
            number: number of the table; None for a nested query.
            alias: alias in the query, or "".
            name: name of the table, used if there is no alias.

        Raises:
            UnreadableQueryError: the name is already defined.
        """
        key = fold(alias or name)
        if key in self.indices:
            raise UnreadableQueryError(f"FROM names {alias or name} twice")
        if key:
            self.indices[key] = len(self.units)
        self.units.append(number)

    @property
    def tables(self) -> list[int]:
        """Numbers of the tables in FROM, without duplicates and nested queries."""
        return list(dict.fromkeys(number for number in self.units if number is not None))


class ExpressionReader(ABC):
    """Converter of SQL clauses from sqlglot's syntax trees to the representation of module `ir`.

    Args:
        schema: schema of the database.
        tree: syntax tree of the whole query. Its table names are visible in nested queries that do not redefine them.
        sql: text of the query, used to determine the quotes of names.
    """

    def __init__(self, schema: Schema, tree: Tree, sql: str) -> None:
        self.schema, self._sql = schema, sql
        self.scope = Scope()
        self._converted: set[int] = set()
        tables = (node for node in tree.walk() if node.key == "table")
        # Table numbers by alias and by table name. Later definitions override earlier definitions.
        self._everywhere = {
            fold(name): schema.find_table(table.name)
            for table in tables
            for name in dict.fromkeys((table.alias, table.name))
            if name
        }

    @abstractmethod
    def query(self, tree: Tree) -> ir.Query:
        """Convert a nested query, as part of a condition or of FROM."""

    def refuse_unread(self, tree: Tree) -> None:
        """Raise `UnreadableQueryError` if a node of the tree was not converted."""
        for node in tree.walk():
            if id(node) not in self._converted:
                raise UnreadableQueryError(f"{node.key} in an unsupported place: {write_text(node)}")

    def take(self, tree: Tree, *kinds: str) -> Tree:
        """Check that a syntax tree node is supported, and record that the node was converted.

        Return the node.

        Args:
            tree: node of the syntax tree.
            *kinds: supported node types.

        Raises:
            UnreadableQueryError: the node has another type, or an argument that is not in `ARGUMENTS`.
        """
        if getattr(tree, "key", None) not in kinds:
            raise UnreadableQueryError(f"{write_text(tree)} in an unsupported place")
        unsupported = next((name for name, part in tree.args.items() if part and name not in ARGUMENTS[tree.key]), None)
        if unsupported:
            raise UnreadableQueryError(f"{unsupported.strip('_').upper()} of {tree.key.upper()}: {write_text(tree)}")
        self._converted.add(id(tree))
        return tree

    def unit(self, tree: Tree, *, star: bool = False) -> ir.ValueUnit:
        """Convert an operand: a column, or two columns joined by an arithmetic operator.

        Args:
            tree: node of the syntax tree.
            star: whether "*" is a valid column.
        """
        tree = self.bare(tree)
        sign = _UNIT_KEYS.get(tree.key)
        if sign is None:
            return ir.ValueUnit(0, self.column(tree, star=star))
        self.take(tree, tree.key)
        return ir.ValueUnit(ir.UNIT_OPERATORS.index(sign), self.column(tree.left), self.column(tree.right))

    def column(self, tree: Tree, *, star: bool = False) -> ir.ColumnUnit:
        """Convert a column, or an aggregate of a column such as max(age).

        Args:
            tree: node of the syntax tree.
            star: whether "*" is a valid column.
        """
        tree = self.bare(tree)
        if tree.key not in AGGREGATE_KEYS:
            return self._find_column(tree, star=star)
        operand, distinct = self.argument(tree)
        unit = self._find_column(self.bare(operand), star=tree.key == "count" and not distinct)
        return replace(unit, aggregate=ir.AGGREGATES.index(tree.key), distinct=distinct)

    def _find_column(self, tree: Tree, *, star: bool) -> ir.ColumnUnit:
        """Resolve a column name of the query to a column of the schema, and its table to a position in FROM."""
        if tree.key == "star" and star:
            self.take(tree, "star")
            return ir.ColumnUnit(0, STAR)
        if tree.key != "column" or getattr(tree.this, "key", "") != "identifier":
            raise UnreadableQueryError(f"{write_text(tree)} is not a column")
        self.take(self.take(tree, "column").this, "identifier")
        if tree.args.get("table"):
            self.take(tree.args["table"], "identifier")
        for tables in self._tables(fold(tree.table)):
            column = self.schema.find_column(tree.name, tables)
            if column is not None:
                return ir.ColumnUnit(0, column, place=self._find_position(tree))
        raise UnreadableQueryError(f"there is no column {write_text(tree)}")

    def _tables(self, name: str) -> Iterator[list[int]]:
        """Yield the tables that a column name may belong to, in order of precedence.

        A table name or alias is global in the query and refers to its last definition.

        Args:
            name: folded table name or alias before the column, "" if there is none.
        """
        if not name:
            yield self.scope.tables
        elif name in self.scope.indices:
            number = self._everywhere.get(name)
            yield [] if number is None else [number]
            number = self.scope.units[self.scope.indices[name]]
            yield [] if number is None else [number]
        elif name in self._everywhere:
            raise UnreadableQueryError(f"{name} is a table of another query")

    def _find_position(self, tree: Tree) -> int:
        """Return the index in FROM of the table that contains a column."""
        scope = self.scope
        indices = [scope.indices[fold(tree.table)]] if tree.table else range(len(scope.units))
        for index in indices:
            number = scope.units[index]
            if number is not None and self.schema.find_column(tree.name, [number]) is not None:
                return index
        raise UnreadableQueryError(f"there is no column {write_text(tree)}")

    def clause(self, tree: Tree | None, kind: str) -> ir.Conditions:
        """Convert a WHERE or HAVING clause to conditions, which are empty if the clause is missing."""
        return self.conditions(self.take(tree, kind).this) if tree else ir.Conditions()

    def conditions(self, tree: Tree) -> ir.Conditions:
        """Convert conditions joined by AND and OR to a flat list, in the order of the text."""
        if tree.key not in ("and", "or"):
            return ir.Conditions((self._condition(tree),))
        self.take(tree, "and", "or")
        left, right = self.conditions(tree.left), self.conditions(tree.right)
        if len(left) + len(right) > ir.MAX_CONDITIONS:
            raise UnreadableQueryError(f"more than {ir.MAX_CONDITIONS} conditions")
        return ir.Conditions((*left.items, *right.items), (*left.connectors, tree.key, *right.connectors))

    def _condition(self, tree: Tree) -> ir.Condition:
        negated = tree.key == "not"
        if negated:
            tree = self.take(tree, "not").this
        if tree.key == "paren":
            raise UnreadableQueryError("conditions in brackets")
        if negated and tree.key not in _NEGATED:
            raise UnreadableQueryError(f"NOT before {write_text(tree)}")
        if tree.key == "between":
            self.take(tree, "between")
            bounds = self._value(tree.args["low"]), self._value(tree.args["high"])
            return ir.Condition(negated, ir.OPERATORS.index("between"), self.unit(tree.this), *bounds)
        if tree.key == "in":
            self.take(tree, "in")
            return ir.Condition(negated, ir.OPERATORS.index("in"), self.unit(tree.this), self._members(tree))
        if tree.key not in _COMPARISON_KEYS:
            raise UnreadableQueryError(f"unsupported condition {write_text(tree)}")
        self.take(tree, tree.key)
        negated ^= bool(tree.args.get("negate"))  # Newer versions of sqlglot set this argument for NOT LIKE.
        sign = ir.OPERATORS.index(_COMPARISON_KEYS[tree.key])
        return ir.Condition(negated, sign, self.unit(tree.left), self._value(tree.right))

    def _members(self, tree: Tree) -> ir.Value:
        query, members = tree.args.get("query"), tree.expressions
        if query is not None and not members and query.this.key not in ("subquery", "paren"):
            return self.query(query)
        if query is not None or len(members) != 1 or members[0].key in ("subquery", "paren"):
            raise UnreadableQueryError("IN with several values, or a query in two brackets")
        return self._value(members[0])

    def _value(self, tree: Tree) -> ir.Value:
        tree = self.bare(tree)
        if tree.key == "select" or tree.key in ir.SET_OPERATORS:
            return self.query(tree)
        if tree.key == "neg" and tree.this.key == "literal" and not tree.this.is_string:
            self.take(tree, "neg")
            return literal_number(f"-{self.take(tree.this, 'literal').name}")
        if tree.key == "literal":
            self.take(tree, "literal")
            return self._string(tree.name) if tree.is_string else literal_number(tree.name)
        if tree.key == "column" and self._is_string(tree):
            self.take(self.take(tree, "column").this, "identifier")
            return self._string(tree.name)
        return self.column(tree)

    def _is_string(self, tree: Tree) -> bool:
        """Return whether a column node is a string in double quotes that names no column."""
        name = tree.this
        start = name.meta.get("start") if name.key == "identifier" else None
        bracketed = start is not None and self._sql.lstrip()[start : start + 1] in ("`", "[")
        is_quoted = name.args.get("quoted") and not tree.args.get("table") and not bracketed
        return bool(is_quoted and self.schema.find_column(tree.name, self.scope.tables) is None)

    def _string(self, text: str) -> str:
        if "\0" in text:
            raise UnreadableQueryError("a text with the character NUL")
        return f'"{text}"'

    def argument(self, tree: Tree) -> tuple[Tree, bool]:
        """Return the argument of an aggregate, and whether it is DISTINCT."""
        self.take(tree, tree.key)
        operand = tree.this
        distinct = operand is not None and operand.key == "distinct"
        arguments = self.take(operand, "distinct").expressions if distinct else [operand]
        if len(arguments) != 1 or arguments[0] is None:
            raise UnreadableQueryError(f"{tree.key.upper()} of several expressions, or of none")
        return arguments[0], distinct

    def bare(self, tree: Tree) -> Tree:
        """Return an expression of the syntax tree without surrounding parentheses."""
        while tree.key in ("paren", "subquery"):
            if tree.args.get("alias"):
                raise UnreadableQueryError(f"a name of {write_text(tree)}")
            tree = self.take(tree, tree.key).this
        return tree


def write_text(tree: Tree) -> str:
    """Format a syntax tree as SQL, for error messages."""
    from sqlglot import ErrorLevel

    try:
        return str(tree.sql(dialect="sqlite", unsupported_level=ErrorLevel.IGNORE))
    except Exception:  # sqlglot cannot write every tree that it can parse.
        return str(tree.key)


def literal_number(text: str) -> int | float:
    """Parse a number in SQL as SQLite does: as a 64-bit integer if possible, else as a float."""
    try:
        value = float(text)
    except ValueError as error:
        raise UnreadableQueryError(f"unsupported number {text}") from error
    if not math.isfinite(value):
        raise UnreadableQueryError(f"a number that is too large: {text}")
    digits = text.lstrip("-")
    if digits.isdecimal() and -ir.MAX_INTEGER <= int(text) < ir.MAX_INTEGER:
        return int(text)
    if len(digits.lower().partition("e")[0].replace(".", "").strip("0")) > _MAX_DIGITS:
        raise UnreadableQueryError(f"a number of more than {_MAX_DIGITS} digits: {text}")
    return value
