"""Texts that columns hold, and the words of questions that are linked to them."""

import json
from pathlib import Path

import numpy as np
import pytest
from music_questions import ENTRY, write_database, write_release

from mate_cli.errors import DataError
from mate_cli.papers.dt_fixup.datasets.spider_questions import Spider
from mate_cli.papers.dt_fixup.schema.relations import SchemaRelations, ValueLinker, question_words
from mate_cli.papers.dt_fixup.sql import database
from mate_cli.papers.dt_fixup.sql.database import read_database_schema, read_values, with_values
from mate_cli.papers.dt_fixup.sql.schema import Schema

FILES = Path(__file__).with_name("databases")
ROWS = [
    "CREATE TABLE singer (id INTEGER, name TEXT, age INTEGER)",
    "CREATE TABLE song (title TEXT, singer INTEGER, sales REAL)",
    "INSERT INTO singer VALUES (1, 'Joni Mitchell', 21), (2, 'Ella', 34), (3, 'Ella', 1985), (4, NULL, 5)",
    "INSERT INTO song VALUES ('Blue', 1, 7.5), ('The Ella Song', 2, 1), (x'00ff', 2, 1)",
]


def held(schema):
    return {column.original: texts for column, texts in zip(schema.columns, schema.values, strict=True) if texts}


@pytest.fixture
def music(tmp_path):
    return write_database(tmp_path / "music.sqlite", *ROWS)


def test_columns_have_their_different_texts_and_no_numbers_or_blobs(music):
    assert held(with_values(Schema.from_entry(ENTRY), music)) == {
        "name": ("Ella", "Joni Mitchell"),
        "title": ("Blue", "The Ella Song"),
    }


def test_names_may_be_anything_that_sql_allows(tmp_path):
    path = write_database(
        tmp_path / "odd.sqlite",
        'CREATE TABLE "a ""b" ("select" TEXT, "x.y" TEXT)',
        """INSERT INTO "a ""b" VALUES ('p', 'q')""",
    )
    assert held(with_values(read_database_schema(path), path)) == {"select": ("p",), "x.y": ("q",)}


def test_a_column_that_the_file_lacks_has_no_texts(music, tmp_path):
    entry = json.loads(json.dumps(ENTRY).replace('"name"], [0, "age"]', '"stage"], [0, "age"]'))
    assert held(with_values(Schema.from_entry(entry), music)) == {"title": ("Blue", "The Ella Song")}


def test_no_more_texts_than_the_limit_and_no_prose(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "MAX_TEXTS", 3)
    rows = [f"INSERT INTO t VALUES ('a{n}', 'b', 'c', '{'long ' * 30}')" for n in range(9)]
    path = write_database(tmp_path / "t.sqlite", "CREATE TABLE t (a TEXT, b TEXT, c TEXT, d TEXT)", *rows)
    found = held(with_values(read_database_schema(path), path))
    assert {name: len(texts) for name, texts in found.items()} == {"a": 3, "b": 1, "c": 1}


def test_what_is_read_depends_on_rows_and_not_on_time(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "MAX_ROWS", 5)
    rows = [f"INSERT INTO t VALUES ('a{n}')" for n in range(9)]
    write_database(tmp_path / "t.sqlite", "CREATE TABLE t (a TEXT)", *rows)
    schema = read_database_schema(tmp_path / "t.sqlite")
    assert held(with_values(schema, tmp_path / "t.sqlite"))["a"] == ("a0", "a1", "a2", "a3", "a4")


def test_columns_without_values_are_named_and_those_after_them_read(tmp_path):
    numbers = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
    views = [f"CREATE VIEW v AS {numbers} SELECT max(x) x FROM c", f"CREATE VIEW w AS {numbers} SELECT 'a' y FROM c"]
    path = write_database(tmp_path / "t.sqlite", "CREATE TABLE t (a TEXT)", "INSERT INTO t VALUES ('b')", *views)
    schema = read_database_schema(path)
    known = with_values(schema, path)
    assert held(known) == {"a": ("b",), "y": ("a",)}
    (note,) = known.notes
    assert note.startswith("No values were read of: v.x (it takes more than ")
    assert note.endswith(" steps of SQLite).")
    with pytest.warns(UserWarning, match=r"t\.sqlite: No values were read of: v\.x"):
        assert read_values(schema, path) == known


@pytest.mark.parametrize("name", ["broken_view", "fts5", "generated", "kw_add", "fk_composite", "instr_bomb"])
def test_any_database_is_read_within_its_limits(name):
    path = FILES / f"{name}.sqlite"
    schema = read_database_schema(path)
    assert len(with_values(schema, path, seconds=3).values) == len(schema.columns)


def test_whole_words_are_linked_whatever_their_case():
    linker = ValueLinker([["Joni Mitchell", "of"], ["New York-City"], []])
    words = question_words("Is joni Mitch of YORK or york-city? 7")
    assert np.argwhere(linker.links(words)).tolist() == [[1, 0], [6, 1]]


def test_a_word_that_a_column_holds_names_it_unless_its_name_says_more(music):
    schema = with_values(Schema.from_entry(ENTRY), music)
    words = question_words("the name of Ella with title Blue")
    place = {column.original: len(words) + number for number, column in enumerate(schema.columns)}
    with_them, without = (SchemaRelations(schema, values=wanted).matrix(words) for wanted in (True, False))
    names, none, named = 27, 29, 30
    for word, column in (("Ella", "name"), ("Ella", "title"), ("Blue", "title")):
        row = words.index(word)
        assert (with_them[row, place[column]], without[row, place[column]]) == (names, none)
        assert with_them[place[column], row] == named
    assert (with_them != without).sum() == 6


def test_spider_reads_databases_where_they_are(tmp_path):
    root = write_release(tmp_path / "data")
    with pytest.raises(DataError, match="no databases to read values from") as refused:
        Spider(root, values=True).examples("train")
    assert "encoding.values=false" in refused.value.remedy
    write_database(root / "database" / "music" / "music.sqlite", *ROWS)
    spider = Spider(root, values=True)
    assert held(spider.examples("dev")[0].schema)["name"] == ("Ella", "Joni Mitchell")
    assert spider.facts == {"databases with values": "1 of 1"}
    assert not Spider(root).examples("dev")[0].schema.values
    assert Spider(root).facts == {}
