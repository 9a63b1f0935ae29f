"""Questions about one's own database: the schema is read, SQL is run where it only reads, and its rows are shown."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

from mate_cli.cli.app import main
from mate_cli.errors import ConfigError, DataError
from mate_cli.pipelines.inference import own_databases
from mate_cli.pipelines.inference.own_databases import AskingDatabase, answer_database

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
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            "CREATE TABLE orders (customer TEXT, price REAL); INSERT INTO orders VALUES ('Ann', 2.5), ('Bo', NULL)"
        )
    return path


@pytest.fixture
def model(monkeypatch):
    """Answers with the SQL that each question quotes; knows no question without words."""
    monkeypatch.setattr(own_databases, "predict", lambda task, loader, config: [])

    def answers(found, examples):
        return {name: example.question.partition(": ")[2] for name, example in examples.items()}

    def loader_of(examples, name, folder):
        failures = {example.example_id: "no words" for example in examples if ":" not in example.question}
        return SimpleNamespace(dataset=SimpleNamespace(encodings=SimpleNamespace(failures=failures)))

    parts = SimpleNamespace(task=SimpleNamespace(answers=answers), data=SimpleNamespace(loader_of=loader_of))
    return SimpleNamespace(name="a model", parts=parts, config=None)


def ask(model, path, *questions, schema=None):
    return answer_database(AskingDatabase(str(path), schema, questions), lambda: model).answers


def texts(answered):
    return [[cell.text for cell in row] for row in (answered.table.header, *answered.table.rows)]


def test_rows_of_the_query_are_shown(model, database):
    whole, counted = ask(model, database, "a: SELECT * FROM orders", "b: SELECT count(*) FROM orders")
    assert whole.text == "SELECT * FROM orders"
    assert texts(whole) == [["customer", "price"], ["Ann", "2.5"], ["Bo", ""]]
    assert (whole.row_numbers, whole.rows_in_file, whole.warnings) == ((1, 2), 2, ())
    assert texts(counted) == [["count(*)"], ["2"]]


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
    assert "put them where 'value' stands" in " ".join(answered.warnings)


def test_schemas_without_a_database(model, tmp_path):
    path = tmp_path / "tables.json"
    path.write_text(json.dumps([ENTRY, {**ENTRY, "db_id": "other"}]))
    (answered,) = ask(model, path, "a: SELECT price FROM orders", schema="other")
    assert answered.warnings == ()
    assert texts(answered) == [["orders.customer", "orders.price"], ["text", "number"]]
    for schema, says in ((None, "has to be said"), ("third", "there is no 'third'")):
        with pytest.raises(ConfigError, match=says):
            ask(model, path, "a: SELECT price FROM orders", schema=schema)
    path.write_text("[{}]")
    with pytest.raises(DataError, match="a schema has db_id"):
        ask(model, path, "a: SELECT price FROM orders")


def test_what_is_asked_wrongly(capsys, database, tmp_path):
    for words, says in (
        ([f"database={database}", "table=x.csv", "question=what?"], "excludes table"),
        ([f"database={database}"], "nothing is asked"),
        (["database=nowhere.sqlite", "question=what?"], "there is no such file"),
        ([f"database={database}", "question=what?"], "run: needs a value"),
    ):
        assert main(["predict", *words]) == 2
        assert says in capsys.readouterr().err
