import json
import shutil

import pytest
import releases
from golden import shared
from releases import everything
from table_releases import TABFACT, TABFACT_TABLES, write_original_tabfact, write_tabfact

from mate_cli.data import download
from mate_cli.data.datasets.tabfact.reader import TabFact, parse_tabfact_table
from mate_cli.errors import DataError


@pytest.fixture
def root(tmp_path):
    return write_tabfact(tmp_path / "tabfact")


def test_statements_have_labels_tables_and_captions(root):
    first, second, third = TabFact(root).examples("train")
    assert (first.example_id, first.question) == ("2-1-1.html.csv_0", "ann lee score 3")
    assert [example.answer.label for example in (first, second, third)] == [1, 0, 1]
    assert [example.answer.texts for example in (first, second)] == [("entailed",), ("refuted",)]
    assert first.table is second.table is third.table
    assert first.table.title == "players"
    assert [cell.text for cell in first.table.header] == ["player", "goals"]
    assert [[cell.text for cell in row] for row in first.table.rows] == [["ann lee", "3"], ['bob "b" stone', ""]]


def test_subsets_are_those_of_the_lists_and_small_is_a_part_of_test(root):
    dataset = TabFact(root)
    assert {split: found[0].subsets for split, found in everything(dataset).items()} == {
        "train": ("simple",),
        "dev": ("complex",),
        "test": ("complex", "small"),
    }
    for path in (root / "data").glob("*.json"):
        path.unlink()
    assert TabFact(root).examples("test")[0].subsets == ()


def pack_beside(root):
    releases.pack(root / "data", "all_csv", ".tar.gz", "data/").rename(root / "all_csv.tar.gz")


def pack_inside(root):
    releases.pack(root / "data", "all_csv", ".zip")


@pytest.mark.parametrize("pack", [pack_beside, pack_inside])
def test_the_release_may_be_packed(root, pack):
    unpacked = everything(TabFact(root))
    pack(root)
    assert everything(TabFact(root)) == unpacked
    assert {split: len(found) for split, found in unpacked.items()} == {"train": 3, "dev": 1, "test": 1}


def test_the_check_counts_labels_and_subsets(root):
    report = TabFact(root).check()
    assert report.problems == ()
    assert report.counts["train"] == {
        "questions": 3,
        "tables": 1,
        "usable": 3,
        "entailed": 2,
        "refuted": 1,
        "simple": 3,
    }
    assert report.counts["all"]["tables"] == 3
    assert report.published["questions"] == 117_854
    assert [str(note) for note in report.notes] == ["statements: lemmatized (tokenized_data)"]
    assert report.percentiles["words in a table"][100] == 8


def statements(dataset):
    return {split: [example.question for example in found] for split, found in everything(dataset).items()}


ORIGINAL = {
    "train": ["Ann Lee scored 3.", "Bob scored 4."],
    "dev": ["Bern was the first of all."],
    "test": ["Rome was first."],
}


def test_statements_are_those_that_people_wrote_where_they_are_there(tmp_path):
    root = write_original_tabfact(tmp_path)
    dataset = TabFact(root)
    assert statements(dataset) == ORIGINAL
    assert {split: [e.answer.label for e in found] for split, found in everything(dataset).items()} == {
        "train": [1, 0],
        "dev": [1],
        "test": [0],
    }
    assert dataset.facts == {"statements": "original (collected_data)"}
    assert dataset.check().problems == ()
    assert "statements: original (collected_data)" in map(str, dataset.check().notes)
    lemmatized = TabFact(root, statements="lemmatized")
    assert statements(lemmatized)["train"] == ["ann lee score 3", "bob score 4", "ann score most"]
    assert [len(found) for found in statements(lemmatized).values()] == [3, 1, 1]


def test_the_first_round_counts_where_the_second_has_no_statements_on_a_table(tmp_path):
    root = write_original_tabfact(tmp_path)
    second = root / "collected_data" / "r2_training_all.json"
    releases.edit(second, lambda found: found.update({"2-1-1.html.csv": [["Bob has more."], [1], "players"]}))
    assert statements(TabFact(root)) == {**ORIGINAL, "train": ["Bob has more."]}


def test_what_a_download_brings_is_read_as_people_wrote_it(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "fetch_all", lambda files, root: write_original_tabfact(root))
    dataset = TabFact(tmp_path / "new", download="auto")
    assert statements(dataset) == ORIGINAL
    assert dataset.facts == {"statements": "original (collected_data)"}


def test_a_round_that_is_not_there_is_named_once(tmp_path):
    root = write_original_tabfact(tmp_path)
    (root / "collected_data" / "r2_training_all.json").unlink()
    (problem,) = TabFact(root).check().problems
    assert "searched for collected_data/r2_training_all.json" in str(problem)


def set_table(text):
    return lambda path: path.write_text(text, encoding="utf-8")


def set_entry(*entry):
    return lambda path: releases.edit(path, lambda entries: entries.update({"2-1-1.html.csv": list(entry)}))


TRAIN, TABLE = "tokenized_data/train_examples.json", "data/all_csv/2-1-1.html.csv"
DAMAGE = {
    "no caption": (TRAIN, set_entry(["x"], [1]), "2-1-1.html.csv: should be [statements, labels, caption]"),
    "a label that is no number": (TRAIN, set_entry(["x"], [True], ""), "a label is neither 0 nor 1"),
    "ragged": (TABLE, set_table("a#b\n1#2#3\n4\n5#6\n"), "row 0 has 3 cells under 2 headers (2 such rows)"),
    "missing": (TABLE, lambda path: path.unlink(), "2-1-1.html.csv: is not there"),
    "a damaged list": ("data/simple_ids.json", set_table("[1, 2"), "simple_ids.json: is not readable JSON"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named_and_can_be_left_out(root, name):
    file, damage, message = DAMAGE[name]
    damage(root / file)
    with pytest.raises(DataError, match=file) as caught:
        TabFact(root).examples("train")
    assert f"mate data check data=tabfact data.root={root}" in str(caught.value)
    assert any(message in str(problem) for problem in TabFact(root).check().problems)
    with pytest.warns(UserWarning, match="damaged examples are left out"):
        kept = TabFact(root, damaged="skip").examples("train")
    assert len(kept) == (3 if "list" in name else 0)


def test_a_table_outside_the_release_is_not_there(root):
    (root / TRAIN).write_text(json.dumps({"../simple_ids.json": [["x"], [1], ""]}))
    (problem,) = TabFact(root).check().problems
    assert (problem.key, problem.what) == (
        "../simple_ids.json",
        "is not there, but has statements in tokenized_data/train_examples.json",
    )


def test_a_damaged_table_is_named_in_each_split_that_needs_it(root):
    releases.edit(root / "tokenized_data" / "val_examples.json", lambda found: found.update(TABFACT["train"]))
    (root / TABLE).unlink()
    dataset = TabFact(root, damaged="skip")
    for split in ("train", "dev"):
        with pytest.warns(UserWarning, match="1 problems"):
            dataset.examples(split)
    assert [problem.key for problem in dataset.check().problems] == ["2-1-1.html.csv"]


def test_missing_files_are_one_error_that_says_what_to_type(root, tmp_path):
    shutil.rmtree(root / "data" / "all_csv")
    with pytest.raises(DataError, match=r"searched for data/all_csv .*mate data download data=tabfact"):
        TabFact(root).examples("train")
    (root / "tokenized_data" / "val_examples.json").unlink()
    with pytest.raises(DataError, match="has no split 'dev'; choose from train, test"):
        TabFact(root).examples("dev")
    with pytest.raises(DataError, match="no such folder"):
        TabFact(tmp_path / "none").examples("train")


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_last_line_may_end_or_not(end):
    table = parse_tabfact_table("t.csv", "t", f"a#b\r\n\r#{end}".encode(), "", [])
    assert [[cell.text for cell in row] for row in table.rows] == [["\r", ""]]


def test_tables_that_no_statement_needs_are_not_read(root):
    (root / "data" / "all_csv" / "2-9-9.html.csv").write_text("a#b\n1\n")
    assert TabFact(root).check().problems == ()
    assert len(TABFACT_TABLES) == TabFact(root).check().counts["all"]["tables"]


@pytest.fixture(scope="module")
def whole():
    return TabFact(shared("data", "tabfact"))


@pytest.mark.long
def test_counts_of_the_shared_data(whole):
    counts = whole.check().counts
    assert {split: (row["questions"], row["tables"], row["entailed"]) for split, row in counts.items()} == {
        "train": (73114, 10412, 40224),
        "dev": (10252, 1351, 5189),
        "test": (10357, 1369, 5201),
        "all": (93723, 13132, 50614),
    }
    parts = ("simple", "complex", "small")
    assert [counts["test"][part] for part in parts] == [3411, 6946, 1671]
    assert counts["train"]["simple"] + counts["train"]["complex"] == 73114
