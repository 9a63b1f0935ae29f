"""Queries and schemas that ask for too much time, memory or disk end, and say so."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from mate_cli.papers.dt_fixup.sql.database import UnrunnableQueryError, read_database_schema, run_query

FILES = Path(__file__).parent / "databases"
ROWS, BOMB = FILES / "rows1000.sqlite", FILES / "instr_bomb.sqlite"
COUNTED = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
LATE = "takes more than"


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT instr(zeroblob(15000000), zeroblob(7000000) || x'01')", LATE),
        (f"{COUNTED} SELECT count(*) FROM c", LATE),
        ("SELECT group_concat(a.a || b.a || c.a) FROM t a, t b, t c", LATE),
        ("SELECT count(*) FROM t a, t b, t c WHERE a.a || b.a LIKE '%9%8%7%' || c.a", LATE),
        ("SELECT count(*) FROM t a, t b, t c WHERE json_extract('[' || a.a || ']', '$[0]') > b.a", LATE),
        ("SELECT sum(length(randomblob(1000000))) FROM t a, t b", LATE),
        ("SELECT replace(hex(zeroblob(8000000)), '0', 'ab')", "too big"),
        ("SELECT randomblob(1000000000)", "too big"),
        ("SELECT fts3_tokenizer('simple')", "not authorized|no such function|wrong number"),
        ("PRAGMA hard_heap_limit = 0", "not authorized"),
        ("CREATE TEMP TABLE x AS SELECT * FROM t", "not authorized"),
        ("VACUUM INTO 'x.sqlite'", "authorization denied"),
        ("", "no columns"),
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
        "SELECT json_group_array(a.a) FROM t a, t b, t c",
        "SELECT printf('%.*c', 16000000, 'x') FROM t ORDER BY 1",
        f"{COUNTED} SELECT count(*) FROM (SELECT DISTINCT x, randomblob(1000) FROM c)",
    ],
)
def test_memory_is_limited_and_no_file_is_written(sql, tmp_path, monkeypatch):
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    with pytest.raises(UnrunnableQueryError, match="256 MB of memory"):
        run_query(sql, ROWS, seconds=30)
    assert not list(tmp_path.iterdir())


def test_a_query_ends_after_the_same_steps_on_any_machine():
    with pytest.raises(UnrunnableQueryError, match="takes more than 5,000 steps of SQLite"):
        run_query("SELECT sum(a >= 0) FROM t", ROWS, steps=5000, seconds=60)
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


def test_blobs_are_told_by_size_and_rows_cut_by_bytes():
    found = run_query("SELECT zeroblob(16000000), NULL, x'00' FROM t LIMIT 3", ROWS)
    assert found.rows == (("(blob of 16,000,000 bytes)", None, "(blob of 1 byte)"),) * 3
    wide = run_query("SELECT printf('%.*c', 1000000, 'x') FROM t LIMIT 20", ROWS)
    assert (len(wide.rows), wide.more, wide.count) == (8, True, 20)
    with pytest.raises(UnrunnableQueryError, match="more than 8 MB"):
        run_query("SELECT printf('%.*c', 9000000, 'x')", ROWS)


def test_numbers_come_as_they_are():
    sql = "SELECT 9223372036854775807, -9223372036854775808, 1e999, 0.1, 'ü' || char(0) || '\u2028'"
    assert run_query(sql, ROWS).rows == ((2**63 - 1, -(2**63), float("inf"), 0.1, "ü\0\u2028"),)


def test_schemas_that_take_long_keep_what_was_read(tmp_path):
    path = tmp_path / "views.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE z (a)")
        for number in range(6):
            below = "z" if not number else f"v{number - 1}"
            connection.execute(f"CREATE VIEW v{number} AS SELECT x.a FROM {below} x, {below} y")
        for number in range(400):
            connection.execute(f"CREATE VIEW w{number} AS SELECT x.a FROM v5 x, v4 y, v3 z")
    begin = time.monotonic()
    schema = read_database_schema(path, seconds=1)
    assert time.monotonic() - begin < 4
    assert schema.tables[1].original == "z"
    assert run_query("SELECT a FROM z", path).count == 0
    assert not schema.notes or "Left out: view" in schema.notes[0]


CODE = """
from pathlib import Path
from mate_cli.papers.dt_fixup.sql.database import run_query
print("on", flush=True)
run_query({!r}, Path({!r}))
"""


def children(process):
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are looked up in /proc")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_query_leaves_no_process(sign):
    code = CODE.format("SELECT x FROM v", str(BOMB))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.readline()
    while not (found := children(process)):
        time.sleep(0.01)
    time.sleep(0.2)
    begin = time.monotonic()
    process.send_signal(sign)
    process.communicate(timeout=3)
    assert time.monotonic() - begin < 3
    while Path(f"/proc/{found[0]}").exists() and "Z" not in Path(f"/proc/{found[0]}/stat").read_text():
        assert time.monotonic() - begin < 6
        time.sleep(0.05)
