"""Synthetic questions as a dataset: which tables, the same every time, and read back as HybridQA's own."""

import importlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mate_cli.data.datasets.hybridqa.reader import SAMPLE_ROOT, HybridQA
from mate_cli.data.datasets.synthetic_questions import SyntheticQuestions
from mate_cli.errors import DataError

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def dataset():
    return SyntheticQuestions(SAMPLE_ROOT, per_table=4, dev_share=0.2)


def tables_of(examples):
    return {example.table.table_id for example in examples}


def test_only_tables_of_training_questions_are_asked_about(dataset):
    release = HybridQA(SAMPLE_ROOT)
    splits = {split: tables_of(release.examples(split)) for split in release.splits}
    used = {split: tables_of(dataset.examples(split)) for split in dataset.splits}
    assert used["train"] | used["dev"] == splits["train"]
    assert not used["train"] & used["dev"]
    assert 5 < len(used["dev"]) < 20
    assert set(dataset.left_out) == splits["dev"] | splits["test"]


def test_tables_of_evaluation_are_left_out_whatever_else_asks_about_them(tmp_path, dataset):
    questions = [
        {"question_id": "x", "question": "who ?", "table_id": HybridQA(SAMPLE_ROOT).examples("test")[0].table.table_id}
    ]
    (tmp_path / "more.json").write_text(json.dumps(questions), encoding="utf-8")
    assert SyntheticQuestions(SAMPLE_ROOT, [str(tmp_path / "more.json")]).tables.keys() == dataset.tables.keys()
    assert SyntheticQuestions(SAMPLE_ROOT, tables="all").tables.keys() == dataset.tables.keys()


def test_tables_without_questions_can_be_used(tmp_path, dataset):
    root = shutil.copytree(SAMPLE_ROOT, tmp_path / "sample")
    shutil.unpack_archive(root / "released_data.tar.xz", root)
    (root / "released_data.tar.xz").unlink()
    file = root / "released_data" / "train.json"
    questions = json.loads(file.read_text(encoding="utf-8"))
    gone = questions[0]["table_id"]
    file.write_text(json.dumps([q for q in questions if q["table_id"] != gone]), encoding="utf-8")
    assert gone not in SyntheticQuestions(root).tables
    assert SyntheticQuestions(root, tables="all").tables == dataset.tables


def test_pages_of_evaluation_can_be_left_out(monkeypatch, dataset):
    page = HybridQA(SAMPLE_ROOT).examples("dev")[0].table.table_id.rpartition("_")[0]
    monkeypatch.setattr(
        "mate_cli.data.datasets.synthetic_questions._page",
        lambda name: page if name in first else name.rpartition("_")[0],
    )
    first = set(sorted(dataset.tables)[:1])
    apart = SyntheticQuestions(SAMPLE_ROOT, apart="page")
    assert apart.tables.keys() == dataset.tables.keys() - first
    assert first <= set(apart.left_out)


def test_the_questions_of_a_table_depend_on_nothing_else(dataset):
    again = SyntheticQuestions(SAMPLE_ROOT, per_table=4, dev_share=0.2)
    table = list(again.tables.values())[-1]
    alone = [example for example, _ in again.of_table(table)]
    everything = [example for split in dataset.splits for example in dataset.examples(split)]
    assert alone == [example for example in everything if example.table.table_id == table.table_id]
    other = SyntheticQuestions(SAMPLE_ROOT, per_table=4, seed=1)
    assert [example for example, _ in other.of_table(table)] != alone
    assert len({example.example_id for example in everything}) == len(everything) > 150


def test_the_parts_are_those_of_all_questions(dataset):
    for part in ("first_column", "other_columns"):
        alone = SyntheticQuestions(SAMPLE_ROOT, per_table=4, dev_share=0.2, parts=[part]).make("dev")
        assert alone == [made for made in dataset.make("dev") if made[0].subsets == (part,)] != []
        columns = [{0} & {question.column, *question.clue_columns} for _, question in alone]
        assert all(columns) if part == "first_column" else not any(columns)


def test_what_is_written_is_read_back_by_hybridqa(tmp_path, dataset, monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    path = tmp_path / "new" / "made.json"
    importlib.import_module("write_questions").write_questions(dataset.make("train"), path)
    extra = HybridQA(SAMPLE_ROOT, extra_train=[str(path)], near_duplicate=1)
    read = extra.examples("train")[len(HybridQA(SAMPLE_ROOT).examples("train")) :]
    assert read == [replace(example, subsets=()) for example in dataset.examples("train")]
    assert {example.answer.source for example in read} == {"table", "passage"}
    assert extra.check().problems == ()
    traced = json.loads(path.with_suffix(".traced.json").read_text(encoding="utf-8"))
    for entry, (_, question) in zip(traced, dataset.make("train"), strict=True):
        ((_, cell, link, source),) = entry["answer-node"]
        assert (cell, link) == ([question.row, question.column], question.link)
        assert source == ("passage" if link else "table")


def test_the_check_counts_what_was_made(dataset):
    report = dataset.check()
    train = report.counts["train"]
    assert train["questions"] == len(dataset.examples("train")) == train["table"] + train["passage"]
    assert {"cell by cell", "passage by cell"} <= train.keys()
    assert report.problems == ()
    assert "20 tables are left out" in str(report.notes[0])


def test_an_unknown_split_is_named(dataset):
    with pytest.raises(DataError, match="no split 'test'; choose from train, dev"):
        dataset.examples("test")
