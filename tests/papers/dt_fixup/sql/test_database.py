"""Databases are read, never written; what a query may cost is bounded."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from mate_cli.errors import DataError
from mate_cli.papers.dt_fixup.sql.database import read_database_schema, run_query
from mate_cli.papers.dt_fixup.sql.read_only import UnrunnableQueryError


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("a folder #1") / "music?.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript("""
            CREATE TABLE singer (Singer_ID INTEGER PRIMARY KEY, Name TEXT, birthDate DATE, alive BOOLEAN, photo BLOB);
            CREATE TABLE "the song" (title VARCHAR(9), by_singer INT REFERENCES singer, "group" REAL,
                                     FOREIGN KEY (by_singer) REFERENCES singer (singer_id));
            INSERT INTO singer (Name) VALUES ('Ann'), ('Bo'), ('Cy');
        """)
    return path


def test_schema(database):
    schema = read_database_schema(database)
    assert [(table.name, table.original) for table in schema.tables[1:]] == [
        ("singer", "singer"),
        ("the song", "the song"),
    ]
    assert [(c.table, c.name, c.original, c.kind) for c in schema.columns[3:]] == [
        (1, "singer id", "Singer_ID", "number"),
        (1, "name", "Name", "text"),
        (1, "birth date", "birthDate", "time"),
        (1, "alive", "alive", "boolean"),
        (1, "photo", "photo", "others"),
        (2, "title", "title", "text"),
        (2, "by singer", "by_singer", "number"),
        (2, "group", "group", "number"),
    ]
    assert schema.primary_keys == (3,)
    assert set(schema.foreign_keys) == {(9, 3)}


@pytest.mark.parametrize(
    "sql",
    [
        *("DELETE FROM singer", "INSERT INTO singer (Name) VALUES ('x')", "DROP TABLE singer"),
        *("PRAGMA query_only = OFF", "ATTACH DATABASE ':memory:' AS other", "SELECT load_extension('x')"),
        *("SELECT 1; DELETE FROM singer", "SELECT nothing FROM singer", "SELECT zeroblob(1000000000)", "\0"),
    ],
)
def test_what_does_not_only_read_is_refused(database, sql):
    before = database.read_bytes()
    with pytest.raises(UnrunnableQueryError):
        run_query(sql, database)
    assert database.read_bytes() == before
    assert [path.name for path in database.parent.iterdir()] == [database.name]


def test_what_is_no_database(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_database_schema(tmp_path / "none.sqlite")
    assert not (tmp_path / "none.sqlite").exists()
    (tmp_path / "text.sqlite").write_text("not a database " * 99)
    with pytest.raises(DataError, match="not a database"):
        run_query("SELECT 1", tmp_path / "text.sqlite")
    sqlite3.connect(tmp_path / "empty.sqlite").close()
    with pytest.raises(DataError, match="no tables"):
        read_database_schema(tmp_path / "empty.sqlite")
