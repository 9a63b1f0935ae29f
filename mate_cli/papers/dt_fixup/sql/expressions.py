"""Columns, values and conditions of a query in sqlglot's syntax trees."""

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
_BOTH = ("this", "expression")
USED: Mapping[str, tuple[str, ...]] = {
    "select": ("expressions", "from_", "from", "joins", "where", "group", "having", "order", "limit", "distinct"),
    **dict.fromkeys(ir.SET_OPERATORS, (*_BOTH, "distinct", "order", "limit")),
    **dict.fromkeys(("from", "where", "having", "not", "neg", "paren", "boolean", "tablealias"), ("this",)),
    **dict.fromkeys(("subquery", "table", "alias"), ("this", "alias")),
    **dict.fromkeys(("group", "order", "distinct"), ("expressions",)),
    **dict.fromkeys(("and", "or", *_UNIT_KEYS, *_COMPARISON_KEYS), _BOTH),
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
    "like": (*_BOTH, "negate"),
    "count": ("this", "big_int"),
    "div": (*_BOTH, "typed", "safe"),
}
"""The types of nodes that are read, and their arguments that are; another one refuses a query."""
_MAX_DIGITS = 15
"""Digits of numbers with a point or an exponent: so many are exact in every floating-point arithmetic."""

Tree = Any
"""A node of sqlglot's syntax trees."""


class UnreadableQueryError(ValueError):
    """A text is no query that can be read; the message says why."""


@dataclass(eq=False)
class Scope:
    """Meanings of the names in one query.

    Args:
        units: tables of FROM in their order; None for a query.
        places: in `units`, by what the query calls them.
        aliases: of columns of the result, and the columns that they are of; None for what is no column.
    """

    units: list[int | None] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    aliases: dict[str, ir.ColumnUnit | None] = field(default_factory=dict)

    def add(self, number: int | None, alias: str, name: str) -> None:
        """Add a table or a query; its own name counts where it has no other."""
        called = fold(alias or name)
        if called in self.places:
            raise UnreadableQueryError(f"FROM names {alias or name} twice")
        if called:
            self.places[called] = len(self.units)
        self.units.append(number)

    @property
    def tables(self) -> list[int]:
        """All tables, each once."""
        return list(dict.fromkeys(number for number in self.units if number is not None))


class ExpressionReader(ABC):
    """Lowers what stands in the clauses of queries.

    Args:
        schema: of the database.
        tree: of the whole query; names of tables in it hold where a nested query has none of its own.
        sql: the text, to see what names are quoted with.
    """

    def __init__(self, schema: Schema, tree: Tree, sql: str) -> None:
        self.schema, self._sql = schema, sql
        self.scope = Scope()
        self._read: set[int] = set()
        tables = (node for node in tree.walk() if node.key == "table")
        self._everywhere = {  # by its alias, and its own name behind those of others
            fold(name): schema.find_table(table.name)
            for table in tables
            for name in dict.fromkeys((table.alias, table.name))
            if name
        }

    @abstractmethod
    def query(self, tree: Tree) -> ir.Query:
        """Read a nested query."""

    def refuse_unread(self, tree: Tree) -> None:
        """Refuse a tree of which something was not read."""
        for node in tree.walk():
            if id(node) not in self._read:
                raise UnreadableQueryError(f"{node.key} in an unsupported place: {write_text(node)}")

    def take(self, tree: Tree, *kinds: str) -> Tree:
        """Mark a node as read, which has to be of one of some types, and have no arguments but those of `USED`."""
        if getattr(tree, "key", None) not in kinds:
            raise UnreadableQueryError(f"{write_text(tree)} in an unsupported place")
        other = next((name for name, part in tree.args.items() if part and name not in USED[tree.key]), None)
        if other:
            raise UnreadableQueryError(f"{other.strip('_').upper()} of {tree.key.upper()}: {write_text(tree)}")
        self._read.add(id(tree))
        return tree

    def unit(self, tree: Tree, *, star: bool = False) -> ir.ValueUnit:
        """Read a column, or two with an operator; "*" where it may be one."""
        tree = self.bare(tree)
        sign = _UNIT_KEYS.get(tree.key)
        if sign is None:
            return ir.ValueUnit(0, self.column(tree, star=star))
        self.take(tree, tree.key)
        return ir.ValueUnit(ir.UNIT_OPERATORS.index(sign), self.column(tree.left), self.column(tree.right))

    def column(self, tree: Tree, *, star: bool = False) -> ir.ColumnUnit:
        """Read a column, perhaps aggregated; "*" where it may be one."""
        tree = self.bare(tree)
        if tree.key not in AGGREGATE_KEYS:
            return self._found(tree, star=star)
        inner, distinct = self.argument(tree)
        unit = self._found(self.bare(inner), star=tree.key == "count" and not distinct)
        return replace(unit, aggregate=ir.AGGREGATES.index(tree.key), distinct=distinct)

    def _found(self, tree: Tree, *, star: bool) -> ir.ColumnUnit:
        """Return the column that a tree names, and its place in FROM."""
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
                return ir.ColumnUnit(0, column, place=self._place(tree))
        raise UnreadableQueryError(f"there is no column {write_text(tree)}")

    def _tables(self, name: str) -> Iterator[list[int]]:
        """Yield the tables of a column; a name holds everywhere, and means the last table that was given it."""
        if not name:
            yield self.scope.tables
        elif name in self.scope.places:
            number = self._everywhere.get(name)
            yield [] if number is None else [number]
            number = self.scope.units[self.scope.places[name]]
            yield [] if number is None else [number]
        elif name in self._everywhere:
            raise UnreadableQueryError(f"{name} is a table of another query")

    def _place(self, tree: Tree) -> int:
        """Return the place in FROM of the table that has a column in the query that names it."""
        scope = self.scope
        places = [scope.places[fold(tree.table)]] if tree.table else range(len(scope.units))
        for place in places:
            number = scope.units[place]
            if number is not None and self.schema.find_column(tree.name, [number]) is not None:
                return place
        raise UnreadableQueryError(f"there is no column {write_text(tree)}")

    def clause(self, tree: Tree | None, kind: str) -> ir.Conditions:
        """Read WHERE or HAVING; there are no conditions where there is none."""
        return self.conditions(self.take(tree, kind).this) if tree else ir.Conditions()

    def conditions(self, tree: Tree) -> ir.Conditions:
        """Return conditions in the order of the text."""
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
            ends = self._value(tree.args["low"]), self._value(tree.args["high"])
            return ir.Condition(negated, ir.OPERATORS.index("between"), self.unit(tree.this), *ends)
        if tree.key == "in":
            self.take(tree, "in")
            return ir.Condition(negated, ir.OPERATORS.index("in"), self.unit(tree.this), self._members(tree))
        if tree.key not in _COMPARISON_KEYS:
            raise UnreadableQueryError(f"unsupported condition {write_text(tree)}")
        self.take(tree, tree.key)
        negated ^= bool(tree.args.get("negate"))  # of LIKE, in newer versions of sqlglot
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
        """Tell whether what looks like a column is a text in double quotes: where no table has such a column."""
        name = tree.this
        start = name.meta.get("start") if name.key == "identifier" else None
        bracketed = start is not None and self._sql.lstrip()[start : start + 1] in ("`", "[")
        quoted = name.args.get("quoted") and not tree.args.get("table") and not bracketed
        return bool(quoted and self.schema.find_column(tree.name, self.scope.tables) is None)

    def _string(self, text: str) -> str:
        if "\0" in text:
            raise UnreadableQueryError("a text with the character NUL")
        return f'"{text}"'

    def argument(self, tree: Tree) -> tuple[Tree, bool]:
        """Read what is aggregated, and whether each value counts once."""
        self.take(tree, tree.key)
        inner = tree.this
        distinct = inner is not None and inner.key == "distinct"
        things = self.take(inner, "distinct").expressions if distinct else [inner]
        if len(things) != 1 or things[0] is None:
            raise UnreadableQueryError(f"{tree.key.upper()} of several things, or of none")
        return things[0], distinct

    def bare(self, tree: Tree) -> Tree:
        """Take off brackets."""
        while tree.key in ("paren", "subquery"):
            if tree.args.get("alias"):
                raise UnreadableQueryError(f"a name of {write_text(tree)}")
            tree = self.take(tree, tree.key).this
        return tree


def write_text(tree: Tree) -> str:
    """Return a syntax tree as SQL, for messages."""
    from sqlglot import ErrorLevel

    try:
        return str(tree.sql(dialect="sqlite", unsupported_level=ErrorLevel.IGNORE))
    except Exception:  # what sqlglot can read, it cannot always write
        return str(tree.key)


def literal_number(text: str) -> int | float:
    """Return a number as SQLite has it: an integer of 64 bits, or a float."""
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
