"""Whatever SQLite can open is read: what is broken in it is left out and named, and nothing is left beside it."""

from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mate_cli.errors import DataError
from mate_cli.papers.dt_fixup.sql.database import read_database_schema, run_query
from mate_cli.papers.dt_fixup.sql.read_only import UnrunnableQueryError
from mate_cli.papers.dt_fixup.sql.schema import read_schemas

FILES = Path(__file__).parent / "databases"


def columns(schema):
    return [f"{schema.tables[c.table].original}.{c.original}" for c in schema.columns[len(schema.tables) :]]


def keys(schema):
    names = dict(enumerate(columns(schema), len(schema.tables)))
    return [(names[one], names[other]) for one, other in schema.foreign_keys]


def made(path, *statements, functions=()):
    """A database of SQL statements; statements that begin with a table's name replace its definition."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in functions:
            connection.create_function(name, 1, lambda value: value, deterministic=True)
        for statement in statements:
            if isinstance(statement, str):
                connection.execute(statement)
            else:
                connection.execute("PRAGMA writable_schema = ON")
                connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", statement[::-1])
    return path


def ended_at_once(folder, code):
    """Run statements on a database in a process that ends without closing it."""
    file = folder / "shop.sqlite"
    lines = f"import os, sqlite3\nc = sqlite3.connect({str(file)!r}, isolation_level=None)\n{code}\nos._exit(0)"
    subprocess.run([sys.executable, "-c", lines], check=True)
    return file


def state(folder):
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in folder.iterdir()}


@pytest.mark.parametrize(
    ("name", "right", "note"),
    [
        ("broken_view", ["a.id", "a.n"], "view v (no such table: main.old)"),
        ("kw_add", ["add.add", "add.z"], ""),
        ("fk_composite", ["p.a", "p.b", "c.x", "c.y"], ""),
        ("generated", ["a.id", "a.price", "a.qty", "a.total", "a.t2"], ""),
        ("fts5", ["docs.title", "docs.body", "geo.id", "geo.minx", "geo.maxx"], ""),
        ("rates", ["rates.current_date"], ""),
    ],
)
def test_columns(name, right, note):
    schema = read_database_schema(FILES / f"{name}.sqlite")
    assert columns(schema) == right
    assert note in " ".join(schema.notes)
    assert bool(schema.notes) == bool(note)


def test_what_is_broken_is_left_out_and_the_rest_is_read(tmp_path):
    table, view = "CREATE TABLE t (a)", "CREATE VIEW v AS SELECT a FROM t"
    for number, (statements, functions, note) in enumerate(
        [
            ((view, "CREATE VIEW w AS SELECT own(a) FROM t"), ["own"], "view w (no such function: own)"),
            ((view, ("v", "CREATE VIEW v AS SELECT FROM WHERE")), [], "view v (its definition cannot be read)"),
            ((view, ("v", "CREATE VIEW v AS SELECT * FROM v")), [], "view v (view v is circularly defined)"),
            ((view, ("v", "CREATE VIEW v AS SELECT * FROM other.x")), [], "view v ("),
            (("CREATE VIEW w AS SELECT load_extension('x')",), [], "view w ("),
            (
                ("CREATE TABLE u (b)", ("u", "CREATE VIRTUAL TABLE u USING unknown(b)")),
                [],
                "u (no such module: unknown)",
            ),
            (("CREATE TABLE u (b)", ("u", "CREATE TABLE u (b, CHECK")), [], "table u (its definition cannot be read)"),
            (("CREATE TABLE u (b, c AS (own(b)))",), ["own"], "table u ("),
        ]
    ):
        path = made(tmp_path / f"{number}.sqlite", table, "INSERT INTO t VALUES (5)", *statements, functions=functions)
        schema = read_database_schema(path)
        assert "t.a" in columns(schema)
        assert note in " ".join(schema.notes), schema.notes
        assert run_query("SELECT a FROM t", path).rows == ((5,),)


def test_nothing_left_to_read_says_what_is_broken(tmp_path):
    path = made(tmp_path / "x.sqlite", "CREATE TABLE u (b)", ("u", "CREATE VIRTUAL TABLE u USING unknown(b)"))
    with pytest.raises(DataError, match=r"no tables that can be read: Left out: table u \(no such module: unknown"):
        read_database_schema(path)


def test_virtual_tables_are_queried():
    assert run_query("SELECT title FROM docs WHERE docs MATCH 'a'", FILES / "fts5.sqlite").count == 1
    assert run_query("SELECT id FROM geo WHERE minx < 3", FILES / "fts5.sqlite").names == ("id",)


def test_keys_pair_column_by_column(tmp_path):
    assert keys(read_database_schema(FILES / "fk_composite.sqlite")) == [("c.x", "p.a"), ("c.y", "p.b")]
    path = made(
        tmp_path / "x.sqlite",
        "CREATE TABLE p (a, b, c, PRIMARY KEY (c, a))",
        "CREATE TABLE q (x, y, z REFERENCES p, FOREIGN KEY (x, y) REFERENCES P,"
        " FOREIGN KEY (y, x) REFERENCES p (a, B))",
        "CREATE TABLE r (n PRIMARY KEY, up REFERENCES r, gone REFERENCES nowhere, bad REFERENCES p (none))",
    )
    schema = read_database_schema(path)
    assert keys(schema) == [("q.x", "p.c"), ("q.y", "p.a"), ("q.y", "p.a"), ("q.x", "p.b"), ("r.up", "r.n")]


def test_letters_beyond_ascii_do_not_fold(tmp_path):
    schema = read_database_schema(made(tmp_path / "x.sqlite", "CREATE TABLE Ä (É, é, a)", "CREATE TABLE ä (É)"))
    assert columns(schema) == ["Ä.É", "Ä.é", "Ä.a", "ä.É"]
    assert [schema.find_table(name) for name in ("Ä", "ä")] == [1, 2]
    assert [schema.find_column(name, [1]) for name in ("É", "é", "A")] == [3, 4, 5]


WAL = "c.execute('PRAGMA journal_mode = wal'); c.execute('CREATE TABLE t (a)'); c.execute('INSERT INTO t VALUES (7)')"
HOT = (
    "c.execute('CREATE TABLE t (a)'); c.execute('PRAGMA cache_size = 1');"
    "c.execute('INSERT INTO t WITH RECURSIVE r(x) AS (SELECT 7 UNION ALL SELECT x FROM r LIMIT 5000) SELECT x FROM r');"
    "c.execute('BEGIN'); c.execute('UPDATE t SET a = 8')"
)


@pytest.mark.parametrize("code", [WAL, HOT])
def test_changes_that_are_not_in_a_database_yet_are_not_left_out(tmp_path, code):
    path = ended_at_once(tmp_path, code)
    before = state(tmp_path)
    assert len(before) > 1
    with pytest.raises(DataError, match=r"shop.sqlite-(wal|journal) contains changes .* Close"):
        read_database_schema(path)
    assert state(tmp_path) == before


def test_a_journal_without_changes_is_left_as_it_is(tmp_path):
    path = ended_at_once(tmp_path, "c.execute('PRAGMA journal_mode = persist')\n" + WAL.partition(";")[2][1:])
    before = state(tmp_path)
    assert len(before) > 1
    assert columns(read_database_schema(path)) == ["t.a"]
    assert set(run_query("SELECT a FROM t", path).rows) == {(7,)}
    assert state(tmp_path) == before


def test_a_write_ahead_log_that_is_gone_is_not_made_again(tmp_path):
    path = ended_at_once(tmp_path, f"{WAL}; c.execute('PRAGMA wal_checkpoint(truncate)'); c.close()")
    before = state(tmp_path)
    assert list(before) == ["shop.sqlite"]
    tmp_path.chmod(0o500)
    try:
        assert run_query("SELECT a FROM t", path).rows == ((7,),)
    finally:
        tmp_path.chmod(0o700)
    assert state(tmp_path) == before


def test_a_database_that_is_being_written(tmp_path):
    path = made(tmp_path / "x.sqlite", "CREATE TABLE t (a)")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(DataError, match=r"database is locked.*that no program is writing"):
            read_database_schema(path)


def test_files_of_schemas(tmp_path):
    plain = json.loads((FILES / "bom.json").read_text(encoding="utf-8-sig"))
    (known,) = read_schemas(FILES / "bom.json").values()
    assert (known.name, len(known.columns)) == ("concert_singer", 26)
    path = tmp_path / "tables.json"
    for content in (gzip.compress(json.dumps(plain).encode()), json.dumps(plain).encode("utf-16")):
        path.write_bytes(content)
        assert read_schemas(path) == {known.name: known}
    with pytest.raises(DataError, match=r"columns begin with \[-1, '\*'\]"):
        read_schemas(FILES / "nostar.json")
    for change, says in (
        ({"column_names_original": plain[0]["column_names_original"][::-1]}, "begin with"),
        ({"column_names": [[-1, "*"], *([2, "x"] for _ in plain[0]["column_names"][1:])]}, "to two"),
        ({"column_names": []}, "is longer than column_names"),
        ({"primary_keys": {"a": 1}}, "a key names column 'a'"),
        ({name: entries[:1] for name, entries in plain[0].items() if name.startswith("column_")}, "has no columns"),
    ):
        path.write_text(json.dumps([plain[0] | change]))
        with pytest.raises(DataError, match=says):
            read_schemas(path)
    path.write_text(json.dumps([{"db_id": "x"}]))
    with pytest.raises(DataError, match=r"\(it has no 'table_names_original'\)"):
        read_schemas(path)
    path.write_text(json.dumps(plain * 2))
    with pytest.raises(DataError, match="same db_id"):
        read_schemas(path)
    path.write_bytes(gzip.compress(b"[" * 99)[:-9])
    with pytest.raises(DataError, match="cannot be read"):
        read_schemas(path)


def test_names_that_are_not_utf_8_are_said_in_plain_words():
    path = FILES / "names_not_utf8.sqlite"
    schema = read_database_schema(path)
    assert [table.original for table in schema.tables[1:]] == ["ok"]
    assert schema.notes == ("Left out: table t (a name of it is not in UTF-8).",)
    with pytest.raises(UnrunnableQueryError, match="a name of it is not in UTF-8"):
        run_query("select * from t", path)


def test_a_table_whose_name_is_not_utf_8(tmp_path):
    path = made(tmp_path / "x.sqlite", "CREATE TABLE t (a)", "CREATE TABLE zz (b)")
    path.write_bytes(path.read_bytes().replace(b"zz", b"z\xe4"))
    assert read_database_schema(path).notes == ("Left out: table z\ufffd (a name of it is not in UTF-8).",)


def test_what_is_no_whole_database(tmp_path):
    path = made(tmp_path / "x.sqlite", "CREATE TABLE t (a)", "INSERT INTO t VALUES (5)")
    content = path.read_bytes()
    for changed, says in (
        (content[:5000], "the file is truncated"),
        (gzip.compress(content), "neither packed nor encrypted"),
    ):
        path.write_bytes(changed)
        with pytest.raises(DataError, match=says):
            read_database_schema(path)
    with pytest.raises(DataError, match="is a folder"):
        read_database_schema(tmp_path)
    path.write_bytes(content + b"\n")  # SQLite reads as many pages as the file says it has
    assert [table.original for table in read_database_schema(path).tables[1:]] == ["t"]
