import csv
import shutil
from pathlib import Path

import pytest
from golden import shared
from hypothesis import given
from hypothesis import strategies as st
from releases import everything
from table_releases import write_sqa

from mate_cli.data.datasets.file_formats import parse_csv_table
from mate_cli.data.datasets.sqa.reader import COLUMNS, SQA, read_turns
from mate_cli.errors import DataError

TABLES = {
    "table_csv/203_1.csv": 'Player,"Team, city"\nAnn Lee,"""Reds"", Oslo"\nBob Stone,Blues\n',
    "table_csv/200_9.csv": '"River","Length"\n"Alva","120"\n',
}
TRAIN = [
    ("nt-1", "0", "1", 'and\tthe "reds"?\nwhich?', "table_csv/203_1.csv", "['(0, 0)']", "['Ann Lee']"),
    ("nt-1", "0", "0", "who?", "table_csv/203_1.csv", "['(1, 0)', '(0, 0)']", "['Bob Stone', 'Ann Lee']"),
    ("nt-1", "1", "0", "which teams?", "table_csv/203_1.csv", "['(0, 1)']", "['\"Reds\", Oslo']"),
    ("nt-1", "0", "2", "their team?", "table_csv/203_1.csv", "['(0, 1)']", "['\"Reds\", Oslo']"),
]
TEST = [("nu-5", "2", "0", "how long is it?", "table_csv/200_9.csv", "['(0, 1)']", "['120']")]


def write_turns(root, name, turns):
    with (root / name).open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter="\t", lineterminator="\n").writerows([COLUMNS, *turns])


@pytest.fixture
def root(tmp_path):
    (tmp_path / "table_csv").mkdir()
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    write_turns(tmp_path, "random-split-1-train.tsv", TRAIN)
    write_turns(tmp_path, "random-split-1-dev.tsv", TRAIN[2:3])
    write_turns(tmp_path, "train.tsv", [*TRAIN, *TEST])
    write_turns(tmp_path, "test.tsv", TEST)
    return tmp_path


def test_tables_and_answers_are_read(root):
    second, first, other, third = SQA(root).examples("train")
    assert [cell.text for cell in first.table.header] == ["Player", "Team, city"]
    assert [[cell.text for cell in row] for row in first.table.rows] == [
        ["Ann Lee", '"Reds", Oslo'],
        ["Bob Stone", "Blues"],
    ]
    assert second.question == 'and\tthe "reds"?\nwhich?'
    assert (first.answer.texts, first.answer.coordinates) == (("Bob Stone", "Ann Lee"), ((1, 0), (0, 0)))
    assert {example.answer.aggregation for example in (first, second, third, other)} == {"none"}
    assert first.table is second.table is other.table


def test_questions_know_what_was_asked_and_answered_before(root):
    second, first, other, third = SQA(root).examples("train")
    assert [e.example_id for e in (first, second, third, other)] == ["nt-1-0_0", "nt-1-0_1", "nt-1-0_2", "nt-1-1_0"]
    assert [e.conversation for e in (first, second, third, other)] == ["nt-1-0", "nt-1-0", "nt-1-0", "nt-1-1"]
    assert (first.history, first.previous_cells) == ((), ())
    assert (second.history, second.previous_cells) == (("who?",), ((1, 0), (0, 0)))
    assert (third.history, third.previous_cells) == (("who?", second.question), ((0, 0),))
    assert (other.history, other.previous_cells) == ((), ())


def test_folds_and_the_whole_training_part(root):
    write_turns(root, "random-split-4-train.tsv", TRAIN[2:3])
    assert SQA(root, fold=4).splits == ("train", "test")
    assert len(SQA(root, fold=4).examples("train")) == 1
    assert len(SQA(root, whole_train=True).examples("train")) == 5


def test_questions_about_tables_of_training_are_scored_apart(root):
    write_turns(root, "random-split-1-dev.tsv", [*TRAIN[2:3], *TEST])
    train, dev, _ = everything(SQA(root)).values()
    assert {example.subsets for example in train} == {()}
    assert [example.subsets for example in dev] == [("seen_tables",), ("unseen_tables",)]
    assert SQA(root).first_examples("dev", 2) == dev


def test_the_check_counts_questions_tables_and_sequences(root):
    report = SQA(root, whole_train=True).check()
    expected = {"questions": 5, "tables": 2, "sequences": 3, "usable": 5, "cells": 5}
    assert {name: report.counts["train"][name] for name in expected} == expected
    assert {problem.what for problem in report.problems} == {"1 question id is in train too"}


def changed(**values):
    return [tuple(values.get(name, old) for name, old in zip(COLUMNS, TEST[0], strict=True))]


DAMAGE = {
    "outside": (
        changed(answer_coordinates="['(1, 1)']"),
        r"nu-5-2_0: line 2: table_csv/200_9.csv has no cell \(1, 1\)",
    ),
    "negative": (changed(answer_coordinates="['(-1, -1)']"), r"200_9.csv has no cell \(-1, -1\)"),
    "cells": (changed(answer_coordinates="['(0, 1"), "nu-5-2_0: line 2 is not a question"),
    "code": (changed(answer_coordinates="__import__('os').getcwd()"), "nu-5-2_0: line 2 is not a question"),
    "texts": (changed(answer_text="['a', 'b']"), "1 cells, but 2 texts"),
    "no list": (changed(answer_text="7"), "nu-5-2_0: line 2 is not a question"),
    "position": (changed(position="x"), "nu-5-2_x: line 2 is not a question"),
    "question": (changed(question=" "), "the question is empty"),
    "table": (changed(table_file="table_csv/0_0.csv"), "table_csv/0_0.csv: is not there"),
    "elsewhere": (changed(table_file="table_csv/../table_csv/203_1.csv"), "203_1.csv: is not there"),
    "no name": (changed(table_file="x" * 999), r"cannot be read \(File name too long\)"),
    "short": ([("nu-5", "2")], "line 2 is not a question"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named_once_and_can_be_left_out(root, name):
    turns, message = DAMAGE[name]
    write_turns(root, "test.tsv", turns)
    with pytest.raises(DataError, match=message):
        SQA(root).examples("test")
    assert sum(problem.file != "random-split-1-dev.tsv" for problem in SQA(root).check().problems) == 1
    with pytest.warns(UserWarning, match="1 problem"):
        assert SQA(root, damaged="skip").examples("test") == []
    assert len(SQA(root).examples("train")) == 4


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ([*changed(position="1")], "nu-5-2: line 2: the positions of its 1 questions are not 0, 1"),
        ([*TEST, *TEST], "nu-5-2: line 2: the positions of its 2 questions"),
        ([*TEST, *changed(position="1", table_file="table_csv/203_1.csv")], "about several tables"),
    ],
)
def test_a_sequence_with_a_gap_or_two_tables_is_a_problem(root, turns, message):
    write_turns(root, "test.tsv", turns)
    with pytest.raises(DataError, match=message):
        SQA(root).examples("test")


def test_other_columns_are_refused(root):
    (root / "test.tsv").write_text("id\tquestion\nx\ty\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"test.tsv: line 1 has no column annotator, position"):
        SQA(root).examples("test")


PIECES = st.sampled_from(
    [b"\t", b"\n", b'"', b"\r", b",", b"['(0, 1)']", b"['x']", b"(" * 500, b"0", b"\x00", b"\xff", b"\\"]
)


@given(st.lists(PIECES, max_size=30).map(b"".join))
def test_whatever_a_file_holds_is_read_or_noted(content):
    noted = []
    turns = read_turns("x", "\t".join(COLUMNS).encode() + b"\n" + content, noted, [])
    assert all(len(turn.cells) == len(turn.texts) > 0 for turn in turns)
    for backslashes in (False, True):
        problems = []
        table = parse_csv_table("x", content, problems, [], backslashes=backslashes)
        assert (table is None) == bool(problems)
        assert table is None or {len(row) for row in table.rows} <= {len(table.header)}


@pytest.mark.long
def test_the_released_test_split():
    examples = SQA(shared("data", "sqa")).examples("test")
    assert len(examples) == 2430
    assert len({example.conversation for example in examples}) == 828
    assert len({id(example.table) for example in examples}) == 142
    for example in examples:
        cells = tuple(example.table.rows[row][column].text for row, column in example.answer.coordinates)
        assert cells == example.answer.texts
    assert sum(not example.history for example in examples) == 828
    assert all(bool(example.history) == bool(example.previous_cells) for example in examples)


def test_an_answer_may_name_an_empty_cell(tmp_path):
    root = write_sqa(tmp_path / "sqa")
    table = root / "table_csv" / "203_1.csv"
    table.write_text(table.read_text().replace("Ann Lee", ""))
    for path in root.glob("*.tsv"):
        path.write_text(path.read_text().replace("Ann Lee", ""))
    report = SQA(root).check()
    assert report.problems == ()
    assert [str(note) for note in report.notes if "empty cell" in str(note)] == [
        "answers: 2 have an empty cell as the answer; they are kept"
    ]
    assert SQA(root).examples("train")[0].answer.texts == ("", "Bob Stone")


def test_a_changed_table_is_one_problem_with_the_line_of_a_question(tmp_path):
    root = write_sqa(tmp_path / "sqa")
    table = root / "table_csv" / "203_1.csv"
    table.write_text(table.read_text().replace("Bob Stone", "Bob Stein"))
    (problem,) = SQA(root).check().problems
    assert str(problem) == (
        "random-split-1-train.tsv: nt-1-0_0: line 2: the answer is 'Bob Stone', "
        "its cell in table_csv/203_1.csv says 'Bob Stein'"
    )


@pytest.mark.parametrize("name", ["SQA Release 1.0.zip", "SQA-Release-1.0.zip", "sqa.tar.gz"])
def test_the_archive_is_read_in_place_by_any_name(tmp_path, name):
    root = write_sqa(tmp_path / "SQA Release 1.0")
    unpacked = {split: SQA(root).examples(split) for split in SQA(root).splits}
    kind = {".zip": "zip", ".gz": "gztar"}[Path(name).suffix]
    (tmp_path / "root").mkdir()
    made = Path(shutil.make_archive(str(tmp_path / "packed"), kind, tmp_path, root.name))
    archive = made.rename(tmp_path / "root" / name)
    for place in (archive.parent, archive):
        assert {split: SQA(place).examples(split) for split in SQA(place).splits} == unpacked
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(DataError, match=f"{name}: cannot be read completely"):
        SQA(archive.parent).examples("train")


def test_two_archives_of_the_same_files_are_one_release_and_of_others_are_refused(tmp_path):
    root = write_sqa(tmp_path / "sqa")
    for name in ("a", "b"):
        shutil.make_archive(str(tmp_path / "both" / name), "zip", tmp_path, "sqa")
    assert len(SQA(tmp_path / "both").examples("train")) == 2
    path = root / "random-split-1-train.tsv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    shutil.make_archive(str(tmp_path / "both" / "b"), "zip", tmp_path, "sqa")
    with pytest.raises(DataError, match=r"random-split-1-train.tsv differs between a.zip: sqa/.* and b.zip: sqa/"):
        SQA(tmp_path / "both").examples("train")
