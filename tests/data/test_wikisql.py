import bz2
import tarfile

import pytest
import releases
from golden import shared
from hypothesis import given, settings
from hypothesis import strategies as st
from table_releases import edit_lines, write_wikisql

from mate_cli.data.datasets.wikisql.reader import WikiSQL
from mate_cli.errors import DataError


@pytest.fixture
def root(tmp_path):
    return write_wikisql(tmp_path / "wikisql")


def answers(dataset, split):
    return {example.question: example.answer for example in dataset.examples(split)}


def test_the_sql_gives_cells_aggregation_and_number(root):
    found = answers(WikiSQL(root, supervision="full", require_rows=False), "train")
    assert (found["who is number 3?"].texts, found["who is number 3?"].coordinates) == (("Ann Lee",), ((0, 0),))
    guards = found["how many guards?"]
    assert (guards.coordinates, guards.aggregation, guards.number) == (((0, 0), (2, 0)), "count", 2.0)
    highest = found["what is the highest number?"]
    assert (highest.coordinates, highest.aggregation, highest.number) == (((2, 1),), "none", 21.0)
    assert found["who is a center?"].source == "no row fits"
    assert found["when was it in Oslo?"] is None


def test_weak_supervision_knows_texts_only_in_training(root):
    weak = WikiSQL(root, supervision="weak", require_rows=False)
    found = answers(weak, "train")
    assert {answer.aggregation for answer in found.values() if answer and answer.texts != ("nan",)} == {None}
    assert (found["how many guards?"].coordinates, found["how many guards?"].number) == ((), 2.0)
    assert found["who is number 3?"].coordinates == ((0, 0),)
    assert answers(weak, "dev") == answers(WikiSQL(root, supervision="full"), "dev")
    assert answers(weak, "dev")["which guards?"].coordinates == ((0, 0), (2, 0))


def test_questions_on_tables_without_rows_are_left_out_and_counted(root):
    dataset = WikiSQL(root)
    with pytest.warns(UserWarning, match=r"wikisql train: 1 of 5 questions left out \(table without rows\)"):
        assert len(dataset.examples("train")) == 4
    counts = dataset.check().counts
    assert counts["train"]["left out: table without rows"] == 1
    assert counts["train"]["unusable: no row fits"] == 1
    assert counts["all"]["questions"] == 7
    assert counts["all"]["usable"] == 4
    assert len(WikiSQL(root, require_rows=False).examples("train")) == 5


def test_tables_of_two_splits_are_mentioned(root):
    report = WikiSQL(root).check()
    assert [str(note) for note in report.notes] == [
        "dev.jsonl: 1-1-1: 1 table is in train too",
        "test.jsonl: 1-1-2: 1 table is in train too",
    ]
    assert report.problems == ()


def test_a_stated_answer_is_kept_where_the_table_has_no_rows(root):
    edit_lines(root / "test.jsonl", lambda entries: entries[0].update(answer=[["Oslo"], [1990.0]]))
    (example,) = WikiSQL(root, require_rows=False).examples("test")
    assert (example.answer.texts, example.answer.coordinates) == (("Oslo", "1990.0"), ())


def test_ids_are_those_of_the_reference_and_tables_are_shared(root):
    examples = WikiSQL(root, require_rows=False).examples("train")
    assert [example.example_id for example in examples] == [f"train-{place}" for place in range(5)]
    assert len({id(example.table) for example in examples}) == 2
    assert examples[0].table.rows[0][1].text == "3"


def pack_all(root):
    with tarfile.open(root / "data.tar.bz2", "w:bz2") as archive:
        for path in sorted(root.glob("*.jsonl")):
            archive.add(path, f"data/{path.name}")
            path.unlink()


def test_damage_is_named_and_can_be_left_out(root):
    edit_lines(root / "train.tables.jsonl", lambda entries: entries.pop(0))
    message = r"train-0: its table 1-1-1 is not in train.tables.jsonl \(nor is that of 3 more\)"
    with pytest.raises(DataError, match=message):
        WikiSQL(root).examples("train")
    with pytest.warns(UserWarning, match="damaged examples are left out"):
        assert len(WikiSQL(root, damaged="skip", require_rows=False).examples("train")) < 5


JUNK = st.sampled_from(
    [None, 7, -1, 10**400, True, 0.5, "junk", [], {}, [None], [["x"]], [[0, 0, 10**400]], {"x": None}]
)


@pytest.mark.long
@settings(max_examples=150)  # quick, and what may break lies in one of hundreds of places
@given(
    st.sampled_from(["train.jsonl", "train.tables.jsonl"]), st.lists(st.integers(0, 5), min_size=1, max_size=5), JUNK
)
def test_no_malformed_file_ends_in_a_traceback(tmp_path_factory, file, path, junk):
    root = write_wikisql(tmp_path_factory.mktemp("fuzz") / "wikisql")
    edit_lines(root / file, lambda entries: releases.replaced(entries, path, junk))
    report = WikiSQL(root).check()
    assert report.counts["train"]["questions"] == 5 or report.problems


def test_a_cut_archive_and_missing_tables_are_one_error(root):
    (root / "dev.tables.jsonl").unlink()
    with pytest.raises(DataError, match=r"searched for dev.tables.jsonl.*mate data download data=wikisql"):
        WikiSQL(root).examples("dev")
    assert "dev.tables.jsonl" in str(WikiSQL(root).check().problems[0].what)
    path = root / "train.jsonl"
    (root / "train.jsonl.bz2").write_bytes(bz2.compress(path.read_bytes())[:-20])
    path.unlink()
    with pytest.raises(DataError, match="cannot be read completely"):
        WikiSQL(root).examples("train")


def test_the_release_is_fetched_when_nothing_is_there(tmp_path, monkeypatch):
    from mate_cli.data import download

    asked = []

    def fetch_all(files, root):
        asked.extend(files)
        pack_all(write_wikisql(root))

    monkeypatch.setattr(download, "fetch_all", fetch_all)
    assert WikiSQL(tmp_path / "new", download="auto").splits == ("train", "dev", "test")
    assert [file.destination for file in asked] == ["data.tar.bz2"]
    with pytest.raises(DataError, match="no such folder"):
        WikiSQL(tmp_path / "none").examples("train")


@pytest.mark.long
def test_counts_of_the_shared_data():
    counts = WikiSQL(shared("data", "wikisql"), supervision="full").check().counts
    assert {split: (row["questions"], row["tables"]) for split, row in counts.items()} == {
        "train": (5959, 1804),
        "dev": (1225, 374),
        "test": (1243, 372),
        "all": (8427, 2550),
    }
    left = {split: row["left out: table without rows"] for split, row in counts.items()}
    assert left == {"train": 5518, "dev": 1141, "test": 1117, "all": 7776}
    assert {split: row["usable"] for split, row in counts.items()} == {"train": 397, "dev": 80, "test": 117, "all": 594}
