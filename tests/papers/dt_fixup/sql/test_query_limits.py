"""Queries and schemas that ask for too much time, memory or disk end, and say so."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from music_questions import write_database

from mate_cli.papers.dt_fixup.sql.database import read_database_schema, run_query, with_values
from mate_cli.papers.dt_fixup.sql.read_only import UnrunnableQueryError

FILES = Path(__file__).parent / "databases"
ROWS = FILES / "rows1000.sqlite"
COUNTED = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
LATE = "takes more than"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT instr(zeroblob(15000000), zeroblob(7000000) || x'01')", "too big"),
        ("SELECT sum(instr(zeroblob(131000 - b.a), zeroblob(65000) || x'01')) FROM t a, t b", LATE),
        (f"{COUNTED} SELECT count(*) FROM c", LATE),
        ("SELECT group_concat(a.a || b.a || c.a) FROM t a, t b, t c", LATE),
        ("SELECT count(*) FROM t a, t b, t c WHERE a.a || b.a LIKE '%9%8%7%' || c.a", LATE),
        ("SELECT count(*) FROM t a, t b, t c WHERE json_extract('[' || a.a || ']', '$[0]') > b.a", LATE),
        ("SELECT sum(length(randomblob(100000))) FROM t a, t b", LATE),
        ("SELECT replace(hex(zeroblob(8000000)), '0', 'ab')", "too big"),
        ("SELECT randomblob(1000000000)", "too big"),
        ("SELECT fts3_tokenizer('simple')", "not authorized|no such function|wrong number"),
        ("PRAGMA hard_heap_limit = 0", "not authorized"),
        ("CREATE TEMP TABLE x AS SELECT * FROM t", "not authorized"),
        ("VACUUM INTO 'x.sqlite'", "authorization denied"),
        ("", "incomplete input"),
        ("EXPLAIN SELECT 1", "syntax error"),
    ],
)
def test_queries_that_end(sql, says):
    begin = time.monotonic()
    with pytest.raises(UnrunnableQueryError, match=says):
        run_query(sql, ROWS, seconds=0.5)
    assert time.monotonic() - begin < 4


@pytest.mark.long
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.a FROM t a, t b, t c ORDER BY a.a",
        "SELECT printf('%.*c', 100000 + a.a, 'x') FROM t a, t b ORDER BY 1",
        f"{COUNTED} SELECT count(*) FROM (SELECT DISTINCT x, randomblob(1000) FROM c)",
    ],
)
def test_memory_is_limited_and_no_file_is_written(sql, tmp_path, monkeypatch):
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    with pytest.raises(UnrunnableQueryError, match="256 MB of memory"):
        run_query(sql, ROWS, seconds=30)
    assert not list(tmp_path.iterdir())


def test_a_query_ends_after_the_same_steps_on_any_machine():
    with pytest.raises(UnrunnableQueryError, match="takes more than 4,000 steps of SQLite"):
        run_query("SELECT sum(a >= 0) FROM t", ROWS, steps=4000, seconds=60)
    assert run_query("SELECT sum(a >= 0) FROM t", ROWS, steps=50_000).rows == ((1000,),)


def test_rows_are_counted_up_to_a_number():
    found = run_query("SELECT a FROM t", ROWS)
    assert (len(found.rows), found.more, found.count) == (100, True, 1000)
    endless = run_query(f"{COUNTED} SELECT x FROM c", ROWS)
    assert (len(endless.rows), endless.more, endless.count) == (100, True, None)
    some = run_query("SELECT a FROM t", ROWS, counting=899)
    assert (len(some.rows), some.more, some.count) == (100, True, 1000)
    assert run_query("SELECT a FROM t", ROWS, counting=898).count is None
    whole = run_query("SELECT a FROM t LIMIT 100", ROWS)
    assert (len(whole.rows), whole.more, whole.count) == (100, False, 100)


def test_blobs_are_told_by_size_and_rows_cut_by_bytes(tmp_path):
    long = "zeroblob(16000000), x'00', printf('%.*c', 1000000, 'x'), printf('%.*c', 9000000, 'x')"
    numbers = "CREATE TABLE u AS WITH r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 20) SELECT x FROM r"
    statements = ["CREATE TABLE t (a, b, c, d)", f"INSERT INTO t VALUES ({long})", numbers]
    path = write_database(tmp_path / "long.sqlite", *statements)
    assert run_query("SELECT a, NULL, b FROM t", path).rows == (
        ("(blob of 16,000,000 bytes)", None, "(blob of 1 byte)"),
    )
    wide = run_query("SELECT c FROM t, u", path)
    assert (len(wide.rows), wide.more, wide.count) == (8, True, 20)
    with pytest.raises(UnrunnableQueryError, match="more than 8 MB"):
        run_query("SELECT d FROM t", path)


def test_numbers_come_as_they_are():
    sql = "SELECT 9223372036854775807, -9223372036854775808, 1e999, 0.1, 'ü' || char(0) || '\u2028'"
    assert run_query(sql, ROWS).rows == ((2**63 - 1, -(2**63), float("inf"), 0.1, "ü\0\u2028"),)


def test_schemas_that_take_long_keep_what_was_read(tmp_path):
    below = ["z", *(f"v{number}" for number in range(5))]
    views = [f"CREATE VIEW v{number} AS SELECT x.a FROM {name} x, {name} y" for number, name in enumerate(below)]
    views += [f"CREATE VIEW w{number} AS SELECT x.a FROM v5 x, v4 y, v3 z" for number in range(100)]
    path = write_database(tmp_path / "views.sqlite", "CREATE TABLE z (a)", *views)
    begin = time.monotonic()
    schema = read_database_schema(path, seconds=1)
    assert time.monotonic() - begin < 4
    assert schema.tables[1].original == "z"
    assert run_query("SELECT a FROM z", path).count == 0
    assert not schema.notes or "Left out: view" in schema.notes[0]


def test_an_interrupted_query_ends_at_once():
    timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_query(f"{COUNTED} SELECT count(*) FROM c", ROWS)
    timer.join()
    assert time.monotonic() - begin < 3


@pytest.mark.long
def test_hostile_views_and_generated_columns_end(tmp_path):
    long = "instr(zeroblob(60000 + a), zeroblob(30000) || x'01')"
    below = ["t", *(f"v{number}" for number in range(1, 30))]
    path = write_database(
        tmp_path / "hostile.sqlite",
        f"CREATE TABLE t (a, g AS ({long}), s TEXT)",
        "INSERT INTO t (a, s) VALUES (1, printf('%.*c', 3000000, 'x'))",
        f"CREATE VIEW slow AS {COUNTED} SELECT {long.replace('+ a', '+ x % 9')} i FROM c, t",
        "CREATE VIEW trimmed AS SELECT trim(s, substr(s, 2) || 'y') FROM t",
        *(
            f"CREATE VIEW v{n} AS SELECT a FROM {name} UNION ALL SELECT a FROM {name}"
            for n, name in enumerate(below, 1)
        ),
    )
    before = path.read_bytes()
    begin = time.thread_time()
    schema = read_database_schema(path, seconds=1)
    assert {"t", "slow"} <= {table.original for table in schema.tables}
    assert run_query("SELECT a, g FROM t", path).rows == ((1, 0),)
    assert run_query("SELECT length(s) FROM t", path).rows == ((3000000,),)
    for sql in ("SELECT sum(i) FROM slow", "SELECT * FROM trimmed", "SELECT s LIKE '%y' FROM t", "SELECT a FROM v30"):
        with pytest.raises(UnrunnableQueryError):
            run_query(sql, path, seconds=0.5)
    assert len(with_values(schema, path, seconds=1).values) == len(schema.columns)
    assert time.thread_time() - begin < 15
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
