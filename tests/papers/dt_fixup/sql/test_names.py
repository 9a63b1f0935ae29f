"""Names that are keywords, strange, or aliases elsewhere: SQLite and the parser take them as names."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from music_questions import write_database

from mate_cli.papers.dt_fixup.sql.database import read_database_schema, run_query
from mate_cli.papers.dt_fixup.sql.ir import ColumnUnit, From, Query, SelectItem, ValueUnit
from mate_cli.papers.dt_fixup.sql.parse import parse
from mate_cli.papers.dt_fixup.sql.write import write


def quoted(name):
    return '"{}"'.format(name.replace('"', '""'))


KEYWORDS = """
abort add after all alter always analyze between case cast check collate column commit conflict create cross current
current_date current_time current_timestamp default deferrable drop each else end escape except exclude exists explain
filter first following for foreign from generated glob group groups having if index indexed instead intersect into is
isnull join key last left like limit match materialized natural no not nothing notnull null nulls of offset on or order
others outer over partition plan pragma query raise range recursive references regexp release rename replace restrict
returning right rollback row rows savepoint select set table temp then ties to transaction trigger unbounded union
unique update using vacuum values view virtual when where window with within without
"""
OTHERS = """
true false any interval current_user lateral ilike date T1 T2 t3 rowid a.b it's "quoted" [x] `x` 1st 2 Ä ä é É ü_1 % ;
-- /* user desc_ Count max sum
"""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("first", range(5))
def test_tables_and_columns_of_any_name(tmp_path, first):
    names = [*KEYWORDS.split(), *OTHERS.split(), "two words", " ", "\t", "a\nb", "名前"][first::5]
    path = tmp_path / "names.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for name in map(quoted, names):
            connection.execute(f"CREATE TABLE {name} ({name} TEXT, plain INT)")
            connection.execute(f"INSERT INTO {name} VALUES ('stored', 1), ('other', 2)")
        schema = read_database_schema(path)
        assert [table.original for table in schema.tables[1:]] == names
        for name in map(quoted, names):
            for text, rows in (
                (f"SELECT {name} FROM {name} WHERE plain = 1 OR {name} = 'x'", [("stored",)]),
                (f"SELECT {name}, count(*) FROM {name} GROUP BY {name} ORDER BY {name}", [("other", 1), ("stored", 1)]),
                (
                    f"SELECT p.{name} FROM {name} AS p JOIN {name} AS q ON p.plain = q.plain WHERE q.plain = 2",
                    [("other",)],
                ),
            ):
                query = parse(text, schema)
                written = write(query, schema)
                assert connection.execute(written).fetchall() == rows, written
                assert parse(written, schema) == query


def test_aliases_are_the_names_of_no_table(tmp_path):
    statements = [*(f"CREATE TABLE {name} (x)" for name in ("a", "T1", "t2")), "INSERT INTO t2 VALUES (7)"]
    path = write_database(tmp_path / "aliases.sqlite", *statements)
    schema = read_database_schema(path)
    text = "SELECT p.x FROM a AS p JOIN T1 AS q ON p.x = q.x UNION SELECT x FROM t2"
    written = write(parse(text, schema), schema)
    assert "AS T3 JOIN T1 AS T4" in written
    assert run_query(written, path).rows == ((7,),)
    joined = Query((SelectItem(0, ValueUnit(0, ColumnUnit(0, schema.find_column("x", [3])))),), From((1, 2, 3)))
    assert write(joined, schema).startswith("SELECT T5.x FROM a AS T3 JOIN T1 AS T4 JOIN t2 AS T5")
