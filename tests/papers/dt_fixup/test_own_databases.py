"""Questions about one's own database: the schema is read, SQL is run where it only reads, and its rows are shown."""

from __future__ import annotations

import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from music_questions import write_database

from mate_cli.cli.app import main
from mate_cli.errors import ConfigError, DataError
from mate_cli.papers.dt_fixup.databases import answer_database as databases
from mate_cli.papers.dt_fixup.databases.source import DatabaseSource
from mate_cli.papers.dt_fixup.models.tree_search import ScoredDerivation
from mate_cli.papers.dt_fixup.sql.parse import parse
from mate_cli.papers.dt_fixup.sql.schema import Schema
from mate_cli.papers.dt_fixup.sql.tree import oracle_actions
from mate_cli.papers.dt_fixup.sql_parsing import SqlParsing, SqlPrediction
from mate_cli.reports.answers.files import answers_csv, answers_json, render_answers
from mate_cli.reports.answers.terminal import print_session
from mate_cli.terminal.console import Console

FILES = Path(__file__).parent / "sql" / "databases"
ENTRY = {
    "db_id": "shop",
    "table_names": ["order"],
    "table_names_original": ["orders"],
    "column_names": [[-1, "*"], [0, "customer"], [0, "price"]],
    "column_names_original": [[-1, "*"], [0, "customer"], [0, "price"]],
    "column_types": ["text", "text", "number"],
    "primary_keys": [],
    "foreign_keys": [],
}


@pytest.fixture
def database(tmp_path):
    rows = "INSERT INTO orders VALUES ('Ann', 2.5), ('Bo', NULL)"
    return write_database(tmp_path / "shop.sqlite", "CREATE TABLE orders (customer TEXT, price REAL)", rows)


@pytest.fixture
def model(monkeypatch):
    """Answers with the SQL that each question quotes; knows no question without words."""
    monkeypatch.setattr(databases, "predict", lambda task, loader, config: [])

    def answers(found, examples):
        return {name: example.question.partition(": ")[2] for name, example in examples.items()}

    def encoded(examples, serializer):
        return SimpleNamespace(failures={one.example_id: "no words" for one in examples if ":" not in one.question})

    monkeypatch.setattr(databases, "EncodedExamples", encoded)
    data = SimpleNamespace(loader_encoded=lambda encodings: encodings)
    parts = SimpleNamespace(task=SimpleNamespace(answers=answers, spec=SqlParsing.spec), data=data, serializer=None)
    return SimpleNamespace(name="a model", parts=parts, settings=None)


def ask(model, path, *questions, schema=None):
    return databases.answer_database(DatabaseSource(str(path), schema).open(questions, None), lambda: model).answers


def texts(answered):
    return [[cell.text for cell in row] for row in (answered.table.header, *answered.table.rows)]


def test_rows_of_the_query_are_shown(model, database):
    whole, counted = ask(model, database, "a: SELECT * FROM orders", "b: SELECT count(*) FROM orders")
    assert whole.answer == "SELECT * FROM orders"
    assert texts(whole) == [["customer", "price"], ["Ann", "2.5"], ["Bo", "NULL"]]
    assert (whole.row_numbers, whole.rows_in_file, whole.warnings) == ((1, 2), 2, ())
    assert texts(counted) == [["count(*)"], ["2"]]


def test_files_hold_the_rows(model, database, tmp_path):
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE notes (text, data)")
        connection.execute("INSERT INTO notes VALUES (?, ?)", ("a\x1b[31m\u202eb\x07", b"12"))
        connection.execute("INSERT INTO notes VALUES (9007199254740993, 1e999)")
    session = databases.answer_database(
        DatabaseSource(str(database)).open(["a: SELECT * FROM notes", "b: SELECT * FROM orders LIMIT 0"], None),
        lambda: model,
    )
    first, none = json.loads(answers_json(session))["answers"]
    assert first["result"] == {
        "columns": ["text", "data"],
        "rows": [["a\x1b[31m\u202eb\x07", "(blob of 2 bytes)"], [9007199254740993, "inf"]],
    }
    assert (first["rows"], first["cells"]) == (2, [])
    assert (none["rows"], none["result"]) == (0, {"columns": ["customer", "price"], "rows": []})
    assert "row 1, data: (blob of 2 bytes); row 2, text: 9007199254740993; row 2, data: inf" in answers_csv(session)
    page = render_answers(session)
    assert "(blob of 2 bytes)" in page
    assert "a[31mb" in page
    assert not set(page) & set("\x1b\x07\u202e")


@pytest.mark.parametrize(
    ("sql", "rows", "hidden"),
    [
        ("SELECT a FROM t", 1000, "995 rows not shown"),
        ("SELECT x.a FROM t x, t y, t z", "more than 100", "more than 95 rows not shown"),
        ("SELECT a FROM t LIMIT 5", 5, ""),
    ],
)
def test_how_many_rows_there_are(model, sql, rows, hidden):
    session = databases.answer_database(
        DatabaseSource(str(FILES / "rows1000.sqlite")).open([f"a: {sql}"], None), lambda: model
    )
    (answer,) = json.loads(answers_json(session))["answers"]
    assert answer["rows"] == rows
    assert len(answer["result"]["rows"]) == min(100, rows if isinstance(rows, int) else 100)
    console = Console(file=io.StringIO(), width=100)
    print_session(session, console)
    assert hidden in console.file.getvalue()
    assert ("not shown" in console.file.getvalue()) == bool(hidden)


def test_what_is_left_out_is_told(model):
    session = databases.answer_database(
        DatabaseSource(str(FILES / "broken_view.sqlite")).open(["a: SELECT count(*) FROM a"], None), lambda: model
    )
    assert session.notes == {str(FILES / "broken_view.sqlite"): ["Left out: view v (no such table: main.old)."]}
    assert texts(session.answers[0])[0] == ["count(*)"]


def test_columns_without_values_are_told_once(model, tmp_path):
    model.parts.serializer = SimpleNamespace(values=True)
    view = "CREATE VIEW v AS SELECT abs(-9223372036854775807 - 1) b FROM t"
    statements = ["CREATE TABLE t (a TEXT)", view, "INSERT INTO t VALUES ('no JSON')"]
    path = write_database(tmp_path / "numbers.sqlite", *statements)
    asked = DatabaseSource(str(path)).open(["a: SELECT count(*) FROM t", "b: SELECT a FROM t"], None)
    session = databases.answer_database(asked, lambda: model)
    assert session.notes == {str(path): ["No values were read of: v.b (integer overflow)."]}


def test_what_cannot_be_run_shows_the_schema(model, database):
    before = database.read_bytes()
    writes, lacks, unknown = ask(model, database, "a: DELETE FROM orders", "b: SELECT x FROM orders", "nothing")
    for answered, why in ((writes, "not authorized"), (lacks, "no such column")):
        assert why in " ".join(answered.warnings)
        assert texts(answered) == [["orders.customer", "orders.price"], ["text", "number"]]
    assert unknown.failure == "no words"
    assert database.read_bytes() == before


def test_values_are_not_predicted(model, database):
    (answered,) = ask(model, database, "a: SELECT price FROM orders WHERE customer = 'value'")
    assert "put them in place of 'value'" in " ".join(answered.warnings)


def test_schemas_without_a_database(model, tmp_path):
    path = tmp_path / "tables.json"
    path.write_text(json.dumps([ENTRY, {**ENTRY, "db_id": "other"}]))
    (answered,) = ask(model, path, "a: SELECT price FROM orders", schema="other")
    assert answered.warnings == ()
    assert texts(answered) == [["orders.customer", "orders.price"], ["text", "number"]]
    for schema, says in ((None, "as there are several"), ("third", "unknown schema 'third'")):
        with pytest.raises(ConfigError, match=says):
            ask(model, path, "a: SELECT price FROM orders", schema=schema)
    path.write_text("[{}]")
    with pytest.raises(DataError, match="a schema has db_id"):
        ask(model, path, "a: SELECT price FROM orders")


def test_a_database_may_have_any_name(model, database):
    (answer,) = ask(model, database.rename(database.with_name("shop.json")), "a: SELECT customer FROM orders")
    assert texts(answer) == [["customer"], ["Ann"], ["Bo"]]


def test_what_is_asked_wrongly(capsys, database, tmp_path):
    for words, says in (
        ([f"database={database}", "table=x.csv", "question=what?"], "cannot be combined with table"),
        ([f"database={database}"], "no question given"),
        (["database=nowhere.sqlite", "question=what?", "checkpoint=x"], "there is no such file"),
        ([f"database={database}", "question=what?"], "run: needs a value"),
    ):
        assert main(["predict", *words]) == 2
        assert says in capsys.readouterr().err


def test_the_best_query_that_runs_is_taken():
    schema = Schema.from_entry(ENTRY)
    first, second = (
        oracle_actions(parse(f"SELECT {column} FROM orders", schema), schema) for column in ("customer", "price")
    )
    example = SimpleNamespace(schema=schema)
    prediction = SqlPrediction("a", (ScoredDerivation(first, -1.0), ScoredDerivation(second, -2.0)))
    for accepted, answer in ((None, "customer"), ("price", "price"), ("customer", "customer"), ("nothing", "customer")):
        task = SimpleNamespace(runs=accepted and (lambda example, sql, word=accepted: word in sql))
        assert SqlParsing._answer(task, prediction, example) == f"SELECT {answer} FROM orders"
    assert SqlParsing._answer(SimpleNamespace(runs=None), SqlPrediction("b"), example) == ""
