"""`mate data export`: questions with their tables that any system reads."""

import json
import os

import pytest
from small_releases import SAMPLES
from table_releases import write_wtq

from mate_cli.cli.app import main
from mate_cli.data.datasets.catalogue import find_dataset
from mate_cli.data.datasets.labelled.sources import LabelledFiles
from mate_cli.data.question_export import export_questions, write_markdown


def export(tmp_path, *words):
    to = tmp_path / "questions.jsonl"
    assert main(["data", "export", f"to={to}", *words]) == 0
    return [json.loads(line) for line in to.read_text().splitlines()]


def test_a_line_has_id_question_and_table_as_written_and_no_answer(tmp_path, capsys):
    root = write_wtq(tmp_path / "wtq")
    table = root / "csv" / "200-csv" / "1.csv"
    table.write_text('"Player","Goals"\n"Ann Lee*","3"\n"Bob|x","3"\n')
    entries = export(tmp_path, "data=wtq", f"data.root={root}")
    assert entries == [
        {
            "id": "nt-9",
            "question": "who?",
            "table_id": "csv/200-csv/1.csv",
            "table": {"header": ["Player", "Goals"], "rows": [["Ann Lee*", "3"], ["Bob|x", "3"]]},
            "markdown": "| Player | Goals |\n| --- | --- |\n| Ann Lee* | 3 |\n| Bob\\|x | 3 |",
        }
    ]
    assert "1 question" in capsys.readouterr().out
    (entry,) = export(tmp_path, "data=wtq", f"data.root={root}", "answers=true")
    assert entry["answer"] == ["Bob"]


def test_passages_are_those_of_cells_and_files_read_them_back(tmp_path):
    entries = export(tmp_path, "data=sample", "answers=true")
    ours = {one.example_id: one for one in find_dataset("sample").open(tmp_path).examples("dev")}
    assert len(entries) == len(ours) == 150
    (tmp_path / "data").mkdir()
    (tmp_path / "questions.jsonl").rename(tmp_path / "data" / "train.jsonl")
    files = LabelledFiles(root=tmp_path / "data", train="train.jsonl", dev_share=0)
    for one in files.examples("train"):
        table, whole = one.table, ours[one.example_id].table
        assert [[cell.text for cell in row] for row in table.rows] == [
            [cell.text for cell in row] for row in whole.rows
        ]
        linked = {link for row in whole.rows for cell in row for link in cell.links}
        assert table.passages == {link: whole.passages[link] for link in linked if whole.passages.get(link)}
        assert one.answer.texts == ours[one.example_id].answer.texts


def test_with_an_encoding_only_the_rows_that_fit_are_left(tmp_path):
    words = ["data=sample", "encoding=table", "encoding.sentences=0", "tokenizer=sample"]
    whole = {one["id"]: one for one in export(tmp_path, "data=sample")}
    few = export(tmp_path, *words, "encoding.max_tokens=48")
    cut = [one for one in few if len(one["table"]["rows"]) < len(whole[one["id"]]["table"]["rows"])]
    assert cut
    for one in cut:
        rows = whole[one["id"]]["table"]["rows"]
        assert one["table"]["rows"] == [rows[number] for number in one["row_numbers"]]
        assert one["markdown"] == write_markdown(one["table"]["header"], one["table"]["rows"])


@pytest.mark.parametrize("name", ["sqa", "tabfact", "wikisql", "squad", "hotpotqa", "spider", "reclor", "hybridqa"])
def test_questions_of_every_kind_are_written(name, tmp_path):
    sample = SAMPLES[name]
    examples = sample.reader(root=sample.write(tmp_path / "data"), **sample.options).examples("train")
    assert export_questions(examples, tmp_path / "q") == len(examples)
    entries = [json.loads(line) for line in (tmp_path / "q").read_text().splitlines()]
    assert [entry["id"] for entry in entries] == [one.example_id for one in examples]
    assert not any({"answer", "label"} & entry.keys() for entry in entries)
    assert all(("history" in entry) == bool(one.history) for entry, one in zip(entries, examples, strict=True))
    assert [entry.get("options", []) for entry in entries] == [list(one.options) for one in examples]


REFUSED = {
    "no file": (["data=sample"], "to: needs a value. Write to=questions.jsonl"),
    "no tokenizer": (["data=sample", "to=FILE", "encoding=table"], "tokenizer: needs a value with encoding"),
    "no split": (["data=sample", "to=FILE", "split=tests"], "has no split 'tests'"),
}


@pytest.mark.parametrize(("words", "told"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(words, told, tmp_path, capsys):
    words = [word.replace("FILE", str(tmp_path / "file")) for word in words]
    assert main(["data", "export", *words]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "file").exists()


def test_a_place_that_takes_no_file_is_refused_before_the_data_are_read(tmp_path, capsys):
    for place in (tmp_path, tmp_path / ("x" * 300)):
        assert main(["data", "export", f"to={place}", "data=wtq", f"data.root={tmp_path / 'missing'}"]) == 2
        assert capsys.readouterr().err.startswith(f"error: to={place}: ")


def test_a_pipe_is_not_replaced(tmp_path, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert main(["data", "export", f"to={pipe}", "data=sample"]) == 2
    assert pipe.is_fifo()
    assert f"{pipe}: is not a regular file" in capsys.readouterr().err
