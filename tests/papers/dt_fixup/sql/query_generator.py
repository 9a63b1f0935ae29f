"""Random schemas, databases that fit them, and queries on them: of the kind that is represented, and of others."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence

from mate_cli.papers.dt_fixup.sql.schema import Schema, SchemaColumn, SchemaTable

NAMES = [
    *("id", "name", "age", "title", "order", "add", "commit", "returning", "current_date", "T1", "T2", "t3", "group"),
    *("two words", 'with "quotes"', "ünïcode", "Ä", "ä", "select", "value", "key", "true", "interval", "rowid_", "1st"),
    *("it's", "a.b", "CamelCase", "temp", "left", "any", "lock", "x", "y", "z", "count", "max", "glob", "if", "row"),
]
TEXTS = ["a", "b", "abc", "it's", "", "10", "1.0", "%", "a%", 'say "x"', "ü", "B", "-3"]
NUMBERS = ["0", "1", "2", "-3", "10", "1.0", "2.5", "-0.25", "1e3", "9007199254740993", "-9223372036854775808", "0.1"]
COMPARISONS = ["=", "!=", "<>", "<", ">", "<=", ">=", "LIKE", "NOT LIKE", "=="]


def quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def random_schema(chance: random.Random) -> Schema:
    tables = chance.sample(NAMES, chance.randint(2, 4))
    columns = [
        SchemaColumn(number, name, name, chance.choice(["text", "number"]))
        for number in range(1, len(tables) + 1)
        for name in chance.sample(NAMES, chance.randint(1, 4))
    ]
    return Schema.from_parts("random", [SchemaTable(name, name) for name in tables], columns)


def random_database(schema: Schema, chance: random.Random, texts: Sequence[str] = TEXTS) -> sqlite3.Connection:
    """A database in memory whose cells are drawn from few values, so that conditions hold now and then."""
    database = sqlite3.connect(":memory:")
    cells: list[object] = [None, 0, 1, 2, -3, 2.5, 1.0, 9007199254740993, 9007199254740992, *texts]
    for number, table in enumerate(schema.tables[1:], 1):
        columns = [column for column in schema.columns if column.table == number and column.original != "*"]
        if not columns or table.original.startswith("sqlite_"):
            continue
        kinds = (f"{quoted(c.original)} {'NUMERIC' if c.kind == 'number' else 'TEXT'}" for c in columns)
        database.execute(f"CREATE TABLE {quoted(table.original)} ({', '.join(kinds)})")
        marks = ", ".join("?" * len(columns))
        for _ in range(chance.choice((1, 5, 12))):
            row = [chance.choice(cells) for _ in columns]
            database.execute(f"INSERT INTO {quoted(table.original)} VALUES ({marks})", row)
    return database


class Writer:
    """Writes random queries of the kind that is represented."""

    def __init__(self, schema: Schema, chance: random.Random) -> None:
        self.schema, self.chance, self.aliases = schema, chance, 0
        self.scope: list[tuple[str, int]] = []

    def maybe(self, share: float = 0.5) -> bool:
        return self.chance.random() < share

    def name(self, name: str) -> str:
        """A name in one of the quotes that SQLite knows, in another case now and then."""
        if self.maybe(0.2):
            name = "".join(c.swapcase() if c.isascii() else c for c in name)
        if self.maybe(0.1) and "]" not in name:
            return f"[{name}]"
        return "`{}`".format(name.replace("`", "``")) if self.maybe(0.1) else quoted(name)

    def columns(self, table: int) -> list[SchemaColumn]:
        return [c for c in self.schema.columns if c.table == table and c.original != "*"]

    def column(self, place: int | None = None) -> str:
        called, table = self.chance.choice(self.scope) if place is None else self.scope[place]
        column = self.name(self.chance.choice(self.columns(table)).original)
        return f"{called}.{column}" if len(self.scope) > 1 or self.maybe(0.3) else column

    def source(self) -> str:
        """FROM with joins; sets what may be named."""
        count = self.chance.choice((1, 1, 1, 2, 2, 3))
        tables = [self.chance.randint(1, len(self.schema.tables) - 1) for _ in range(count)]
        self.scope, texts = [], []
        clauses = self.chance.randint(0, count - 1)
        for place, table in enumerate(tables):
            name = self.name(self.schema.tables[table].original)
            called = name
            if count > 1 or self.maybe(0.3):
                self.aliases += 1
                called = f"q{self.aliases}"
                name = f"{name} {self.chance.choice(['AS ', ''])}{called}"
            self.scope.append((called, table))
            if not place:
                texts.append(name)
                continue
            is_comma = self.maybe(0.15)
            texts.append((", " if is_comma else self.chance.choice([" JOIN ", " INNER JOIN "])) + name)
            if clauses and not is_comma:
                clauses -= 1
                either = [f"{self.column(place)} = {self.column(self.chance.randrange(place))}" for _ in range(2)]
                word = " OR " if count == 2 and self.maybe(0.2) else " AND "
                texts.append(" ON " + word.join(either[: 1 + self.maybe(0.3)]))
        return "FROM " + "".join(texts)

    def value(self, depth: int) -> str:
        if depth and self.maybe(0.15):
            return f"({self.nested(depth - 1)})"
        if self.maybe(0.15):
            return self.column()
        if self.maybe(0.5):
            return self.chance.choice(NUMBERS)
        text = self.chance.choice(TEXTS)
        return "'{}'".format(text.replace("'", "''"))

    def nested(self, depth: int) -> str:
        outer = self.scope
        text = self.query(depth, columns=1)
        self.scope = outer
        return text

    def condition(self, depth: int, left: str | None = None) -> str:
        left = left or (self.column() if self.maybe(0.9) else f"{self.column()} {self.sign()} {self.column()}")
        kind = self.chance.random()
        if kind < 0.15:
            return f"{left} {'NOT ' * self.maybe()}BETWEEN {self.value(0)} AND {self.value(0)}"
        if kind < 0.3 and depth:
            return f"{left} {'NOT ' * self.maybe()}IN ({self.nested(depth - 1)})"
        if kind < 0.35:
            return f"NOT {left} IN ({self.value(0)})"
        return f"{left} {self.chance.choice(COMPARISONS)} {self.value(depth)}"

    def sign(self) -> str:
        return self.chance.choice("+-*/")

    def conditions(self, depth: int) -> str:
        parts = [self.condition(depth) for _ in range(self.chance.choice((1, 1, 2, 3)))]
        return parts[0] + "".join(f" {self.chance.choice(['AND', 'OR'])} {part}" for part in parts[1:])

    def aggregate(self) -> str:
        if self.maybe(0.4):
            return "count(*)"
        word = self.chance.choice(["max", "min", "sum", "avg", "count", "COUNT"])
        return f"{word}({'DISTINCT ' * self.maybe(0.2)}{self.column()})"

    def item(self, *, grouped: bool) -> str:
        if grouped and self.maybe():
            text = self.aggregate()
        elif self.maybe(0.1):
            text = f"{self.column()} {self.sign()} {self.column()}"
        else:
            text = self.column()
        return f"{text} AS result{self.chance.randint(1, 9)}" if self.maybe(0.1) else text

    def query(self, depth: int = 2, columns: int | None = None) -> str:
        text = self.single(depth, columns or self.chance.randint(1, 3), ordered=True)
        if columns is None and self.maybe(0.15):
            width = self.chance.randint(1, 2)
            word = self.chance.choice(["UNION", "INTERSECT", "EXCEPT"])
            parts = [self.single(depth, width, ordered=False) for _ in range(self.chance.choice((2, 2, 3)))]
            return f" {word} ".join(parts)
        return text

    def single(self, depth: int, columns: int, *, ordered: bool) -> str:
        source, grouped = self.source(), self.maybe(0.3)
        items = [self.item(grouped=grouped) for _ in range(columns)]
        if columns > 1 and ordered and self.maybe(0.1) and not grouped:
            items = ["*"]
        parts = ["SELECT" + " DISTINCT" * self.maybe(0.15), ", ".join(items), source]
        parts += [f"WHERE {self.conditions(depth)}"] if self.maybe() else []
        if grouped:
            parts.append(f"GROUP BY {', '.join(self.column() for _ in range(self.chance.choice((1, 1, 2))))}")
            if self.maybe(0.4):
                parts.append(f"HAVING {self.condition(0, self.aggregate())}")
        if ordered and self.maybe(0.4):
            direction = self.chance.choice(["", " ASC", " DESC"])
            keys = [self.aggregate() if grouped and self.maybe() else self.column() for _ in range(1 + self.maybe(0.2))]
            parts.append(f"ORDER BY {', '.join(key + direction for key in keys)}")
            parts += [f"LIMIT {self.chance.randint(0, 4)}"] if self.maybe() else []
        return self.chance.choice([" ", "  ", "\n"]).join(parts)


SINGLE = [  # {a}, {b}: columns of the table {t}; {u} and {c}: another table and a column of it
    *("SELECT * FROM {t} NATURAL JOIN {u}", "SELECT p.{a} FROM {t} AS p {side} JOIN {u} AS q ON p.{a} = q.{c}"),
    *("SELECT {a} FROM {t} AS p JOIN {t} AS q USING ({a})", "SELECT p.* FROM {t} AS p JOIN {u} AS q"),
    *("SELECT {a} FROM {t} LIMIT {n} OFFSET {n}", "SELECT {a} FROM {t} LIMIT {n}, {n}"),
    *("SELECT {a} FROM {t} LIMIT (SELECT {n})", "WITH w AS (SELECT {a} FROM {t}) SELECT {c} FROM {u}"),
    *("SELECT {a} FROM {t} ORDER BY {a} DESC, {b}", "SELECT {a} FROM {t} ORDER BY {a}, {b} DESC"),
    *("SELECT {a} FROM {t} ORDER BY {a} {nulls}", "SELECT {a} FROM {t} ORDER BY {a} COLLATE NOCASE"),
    *("SELECT {a} FROM {t} ORDER BY {n}", "SELECT sum({a}) AS {b} FROM {t} GROUP BY {b} ORDER BY {b}"),
    *("SELECT {a} FROM {t} WHERE NOT {b} = {v}", "SELECT {a} FROM {t} WHERE NOT {b} < {v}"),
    "SELECT {a} FROM {t} WHERE ({b} = {v} OR {a} = {v}) AND {b} > {v}",
    *("SELECT {a} FROM {t} WHERE NOT ({b} = {v} AND {a} = {v})", "SELECT {a} FROM {t} WHERE {b} = 1e400"),
    *("SELECT {a} FROM {t} WHERE {b} = -1e999", "SELECT {a} FROM {t} WHERE {b} = -'abc'"),
    *("SELECT {a} FROM {t} WHERE {b} = +{v}", "SELECT {a} FROM {t} WHERE +{b} = {v}"),
    *("SELECT {a} FROM {t} WHERE {b} = {v} COLLATE NOCASE", "SELECT {a} FROM {t} WHERE {b} IN ({v}, {v})"),
    *("SELECT {a} FROM {t} WHERE {b} IN ((SELECT {c} FROM {u}))", "SELECT {a} FROM {t} WHERE {b} IN {u}"),
    *("SELECT {a} FROM {t} WHERE {b} IS NULL", "SELECT {a} FROM {t} WHERE {b} IS NOT {v}"),
    *("SELECT {a} FROM {t} WHERE {b} NOTNULL", "SELECT {a} FROM {t} WHERE {b} LIKE {v} ESCAPE '!'"),
    *("SELECT {a} FROM {t} WHERE {b} GLOB {v}", "SELECT {a} FROM {t} WHERE EXISTS (SELECT {c} FROM {u})"),
    *("SELECT {a} FROM {t} WHERE {v} = {b}", "SELECT {a} FROM {t} WHERE {b}"),
    *("SELECT {a} FROM {t} WHERE {b} = x'01'", "SELECT {a} FROM {t} WHERE {b} = NULL"),
    *("SELECT {a} FROM {t} WHERE {b} = TRUE", "SELECT {a} FROM {t} WHERE {b} = ?"),
    *("SELECT {a} FROM {t} WHERE {b} = {v} || {v}", "SELECT {a} FROM {t} WHERE {b} = CAST({v} AS TEXT)"),
    "SELECT p.{a} FROM {t} AS p WHERE p.{b} IN (SELECT q.{c} FROM {u} AS q WHERE q.{c} = p.{a})",
    "SELECT p.{a} FROM {t} AS p JOIN {t} AS q ON p.{a} = q.{a} OR p.{b} = q.{b} JOIN {u} AS r ON r.{c} = p.{a}",
    *("SELECT p.{a} FROM {t} AS p JOIN {u} AS q ON 1 = 0", "SELECT p.{a} FROM {t} AS p JOIN {u} AS q ON FALSE"),
    "SELECT {a} FROM {t} UNION ALL SELECT {c} FROM {u}",
    "SELECT {a} FROM {t} UNION ALL SELECT {c} FROM {u} UNION SELECT {b} FROM {t}",
    "SELECT {a} FROM {t} UNION SELECT {c} FROM {u} LIMIT {n} OFFSET {n}",
    *("SELECT p.{a} FROM (SELECT {a} FROM {t}) AS p", "SELECT {a} FROM main.{t}"),
    *("SELECT {a} FROM {t} INDEXED BY other", "SELECT {a} FROM {t} AS p (k)", "SELECT {a}, {n} FROM {t}"),
    *("SELECT {v} FROM {t}", "SELECT {a} + {n} FROM {t}", "SELECT {a} || {b} FROM {t}", "SELECT -{a} FROM {t}"),
    *("SELECT abs({a}) FROM {t}", "SELECT max({a}, {b}) FROM {t}", "SELECT group_concat({a}) FROM {t}"),
    *("SELECT count({a}) FILTER (WHERE {b} = {v}) FROM {t}", "SELECT sum({a}) OVER (PARTITION BY {b}) FROM {t}"),
    *("SELECT CASE WHEN {a} = {v} THEN {b} END FROM {t}", "SELECT (SELECT {c} FROM {u}) FROM {t}"),
    *("SELECT {a} COLLATE NOCASE FROM {t}", "SELECT max(*) FROM {t}", "SELECT {a} FROM {t} GROUP BY {n}"),
    *("SELECT {a} FROM {t} WINDOW w AS (ORDER BY {a})", "SELECT {a} FROM {t}; SELECT {c} FROM {u}", "VALUES ({v})"),
    *("SELECT {v}", "DELETE FROM {t}", "EXPLAIN SELECT {a} FROM {t}"),
]
"""Kinds of queries that are not represented."""


def refused_query(kind: str, schema: Schema, chance: random.Random) -> str:
    writer = Writer(schema, chance)
    wide = [n for n in range(1, len(schema.tables)) if len(writer.columns(n)) > 1] or [1]
    table, other = chance.choice(wide), chance.randint(1, len(schema.tables) - 1)
    columns = [quoted(c.original) for c in writer.columns(table)]
    one, two = chance.sample(columns, 2) if len(columns) > 1 else columns * 2
    parts = {
        "a": one,
        "b": two,
        "c": quoted(chance.choice(writer.columns(other)).original),
        "t": quoted(schema.tables[table].original),
        "u": quoted(schema.tables[other].original),
        "n": chance.randint(1, 9),
        "side": chance.choice(["LEFT", "RIGHT", "FULL", "LEFT OUTER"]),
        "nulls": chance.choice(["NULLS LAST", "DESC NULLS FIRST", "ASC NULLS LAST"]),
    }
    while "{v}" in kind:
        kind = kind.replace("{v}", chance.choice(["1", "2.5", "'a'", "'it''s'"]), 1)
    return kind.format(**parts)
