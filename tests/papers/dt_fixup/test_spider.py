"""Spider's files as they are released: read, counted, and damage named by file and place."""

from __future__ import annotations

import gzip
import json

import pytest

from mate_cli.cli.app import main
from mate_cli.errors import DataError
from mate_cli.papers.dt_fixup.datasets.spider_questions import Spider

SCHEMA = {
    "db_id": "flight_2",
    "table_names": ["airport", "flight"],
    "table_names_original": ["airports", "flights"],
    "column_names": [[-1, "*"], [0, "code"], [0, "city"], [1, "source airport"], [1, "target airport"]],
    "column_names_original": [[-1, "*"], [0, "Code"], [0, "City"], [1, "Source"], [1, "Target"]],
    "column_types": ["text", "text", "text", "text", "text"],
    "primary_keys": [1],
    "foreign_keys": [[3, 1], [4, 1]],
}
JOIN = "SELECT count(*) FROM airports AS T1 JOIN flights AS T2 ON T1.Code = T2.Source OR T1.Code = T2.Target"


def asked(query="SELECT count(*) FROM airports", **other):
    return {"db_id": "flight_2", "question": "How many airports?", "query": query} | other


def write(root, train=None, dev=None, schemas=None):
    (root / "train_spider.json").write_text(json.dumps([asked()] if train is None else train))
    with gzip.open(root / "dev.json.gz", "wt") as file:
        json.dump(dev or [asked()], file)
    (root / "tables.json").write_text(json.dumps(schemas or [SCHEMA]))
    return Spider(root)


def test_questions_and_their_queries(tmp_path):
    (first, third) = write(tmp_path, [asked(), asked(query=None)]).examples("train")
    assert (first.example_id, first.question) == ("train_spider-00000", "How many airports?")
    assert first.answer.texts == ("SELECT count(*) FROM airports",)
    assert [str(action) for action in first.actions if hasattr(action, "column")] == ["SelectColumnAction[id=1]"]
    assert first.subsets == ("easy",)
    assert (third.answer, third.query, third.actions, third.subsets) == (None, None, None, ())
    assert first.schema is third.schema
    assert [cell.text for cell in first.table.header] == [
        *("airports.Code", "airports.City", "flights.Source", "flights.Target")
    ]


def test_more_files_to_train_on(tmp_path):
    write(tmp_path)
    (tmp_path / "others.json").write_text(json.dumps([asked()]))
    dataset = Spider(tmp_path, train_files=["train_spider.json", "others.json"])
    assert [example.example_id for example in dataset.examples("train")] == ["train_spider-00000", "others-00000"]


def test_what_cannot_be_read_is_counted_and_not_fatal(tmp_path, capsys):
    unread = asked("SELECT count(*) FROM airports ORDER BY count(*) > 5")
    lossy = asked(JOIN)
    report = write(tmp_path, [asked(), unread, lossy]).check()
    assert not report.problems
    counted = report.counts["train"]
    assert (counted["query"], counted["unusable: its query cannot be read"]) == (1, 1)
    assert counted["unusable: outside the grammar"] == 1
    (note,) = (note for note in report.notes if "cannot be read" in note.what)
    assert (note.file, note.key) == ("train_spider.json", "train_spider-00001")
    assert main(["data", "check", "data=spider", f"data.root={tmp_path}"]) == 0
    assert "outside the grammar" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("entry", "key", "says"),
    [
        (5, "entry 1", "not a JSON object"),
        (asked(question=""), "entry 1", "question is missing, empty or not text"),
        (asked(db_id="other"), "entry 1", "its database has no valid schema: 'other'"),
        (asked(query=7), "entry 1", "query is missing, empty or not text"),
    ],
)
def test_damaged_questions_are_named(tmp_path, entry, key, says):
    dataset = write(tmp_path, [asked(), entry])
    (problem,) = dataset.check().problems
    assert (problem.file, problem.key) == ("train_spider.json", key)
    assert says in problem.what
    with pytest.raises(DataError, match=r"train_spider\.json"):
        dataset.examples("train")
    with pytest.warns(UserWarning, match="damaged"):
        assert len(Spider(tmp_path, damaged="skip").examples("train")) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"foreign_keys": [[3, 9]]}, "column 9, which does not exist"),
        ({"column_names": [[-1, "*"], [7, "code"], *SCHEMA["column_names"][2:]]}, "belongs to no table"),
        ({"column_types": ["text"]}, "shorter"),
        ({"table_names": None}, "a schema has db_id"),
    ],
)
def test_damaged_schemas_are_named(tmp_path, change, says):
    dataset = write(tmp_path, schemas=[SCHEMA | change, {**SCHEMA, "db_id": "sound"}])
    problems = dataset.check().problems
    assert (problems[0].file, problems[0].key) == ("tables.json", "flight_2")
    assert says in problems[0].what
    assert main(["data", "check", "data=spider", f"data.root={tmp_path}"]) == 2
