import gzip
import re
import shutil

import pytest
from golden import shared
from releases import everything

from mate_cli.data.datasets.wtq.reader import WikiTableQuestions
from mate_cli.errors import DataError
from mate_cli.metrics.subsets import group_by_subset
from mate_cli.metrics.system_answers import TableAnswers
from mate_cli.metrics.wtq_official import official_accuracy
from mate_cli.tables.example import SystemAnswer

TABLES = {
    "csv/200-csv/0.csv": '"Year","City[1]","Notes"\n'
    '"1995","Rome (Italy)\u2020","said \\"no\\""\n'
    '"1996","Caf\u00e9","a \\\\ b"\n'
    '"1996","Oslo","two\nlines"\n',
    "csv/204-csv/7.csv": '"Name","Goals"\n"Ann","3"\n"Bob",""\n"Cy","NA"\n"null","3"\n',
}
FILES = {
    "random-split-1-train": [
        ("nt-0", "where in 1995?", "csv/200-csv/0.csv", "Rome"),
        ("nt-1", "which year?", "csv/200-csv/0.csv", "1996"),
        ("nt-2", "how many cities?", "csv/200-csv/0.csv", "3"),
        ("nt-3", "which cities?", "csv/200-csv/0.csv", "oslo|Cafe"),
        ("nt-4", "what is said?", "csv/200-csv/0.csv", "nothing"),
    ],
    "random-split-1-dev": [("nt-9", "which year?", "csv/200-csv/0.csv", "1996")],
    "pristine-unseen-tables": [
        ("nu-0", '"who" \\\\ scored\\nleast?', "csv/204-csv/7.csv", '"Ann"'),
        ("nu-1", "a pipe?", "csv/204-csv/7.csv", "a\\pb|c"),
        ("nu-2", "born?", "csv/204-csv/7.csv", "2 May 1990"),
    ],
}
TAGGED = {
    "pristine-unseen-tables": [("nu-1", "a\\pb|c"), ("nu-2", "1990-05-02")],
    "training": [("nt-0", "Rome"), ("nt-2", "3.0")],
}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_questions(root, name, questions):
    lines = [("id", "utterance", "context", "targetValue"), *questions]
    write(root / "data" / f"{name}.tsv", "".join("\t".join(line) + "\n" for line in lines))


@pytest.fixture
def root(tmp_path):
    for name, text in TABLES.items():
        write(tmp_path / name, text)
    for name, questions in FILES.items():
        write_questions(tmp_path, name, questions)
    return tmp_path


def cells(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_tables_are_read_with_their_escapes_and_normalised(root):
    table = WikiTableQuestions(root).examples("train")[0].table
    assert [cell.text for cell in table.header] == ["Year", "City[1]", "Notes"]
    assert cells(table) == [["1995", "rome", 'said "no"'], ["1996", "cafe", "a \\ b"], ["1996", "oslo", "two lines"]]
    raw = WikiTableQuestions(root, normalize_cells=False).examples("train")[0].table
    assert cells(raw)[0][1:] == ["Rome (Italy)\u2020", 'said "no"']
    assert cells(raw)[2][2] == "two\nlines"


def test_what_is_learnt_from_answers_of_train_and_of_other_splits(root):
    dataset = WikiTableQuestions(root)
    answers = {example.example_id: example.answer for example in dataset.examples("train")}
    assert answers["nt-0"].coordinates == ((0, 1),)
    assert (answers["nt-1"].coordinates, answers["nt-1"].number, answers["nt-1"].source) == (
        (),
        None,
        "in several cells",
    )
    assert (answers["nt-2"].coordinates, answers["nt-2"].number) == ((), 3.0)
    assert (answers["nt-3"].coordinates, answers["nt-3"].texts) == (((2, 1), (1, 1)), ("oslo", "Cafe"))
    assert (answers["nt-4"].source, answers["nt-4"].texts) == ("not found", ("nothing",))
    (dev,) = dataset.examples("dev")
    assert (dev.answer.coordinates, dev.answer.number, dev.answer.source) == (((1, 0),), 1996.0, "")


def test_questions_and_answers_are_unescaped(root):
    first, second, _ = WikiTableQuestions(root).examples("test")
    assert first.question == '"who" \\ scored\nleast?'
    assert (first.answer.texts, first.answer.coordinates) == (('"Ann"',), ((0, 0),))
    assert second.answer.texts == ("a|b", "c")


def test_cells_without_value_say_what_they_should(root):
    def of(**options):
        return cells(WikiTableQuestions(root, **options).examples("test")[0].table)

    assert of()[1:] == [["bob", ""], ["cy", "na"], ["null", "3"]]
    assert of(missing="nan")[1:] == [["bob", "nan"], ["cy", "nan"], ["nan", "3"]]


def meanings(dataset, split):
    return [example.answer.canonical for example in dataset.examples(split)]


def test_canonical_answers_and_titles_are_read_where_they_are(root):
    assert meanings(WikiTableQuestions(root), "test") == [('"Ann"',), ("a|b", "c"), ("2 May 1990",)]
    for name, lines in TAGGED.items():
        text = "id\ttargetCanon\ttargetCanonType\n" + "".join(f"{key}\t{canon}\tx\n" for key, canon in lines)
        write(root / "tagged" / "data" / f"{name}.tagged", text)
    (root / "misc").mkdir()
    titles = "contextId\tpageId\ttitle\ncsv/204-csv/7.csv\t5\tCup\\pfinal\n"
    (root / "misc" / "table-metadata.tsv.gz").write_bytes(gzip.compress(titles.encode()))
    dataset = WikiTableQuestions(root)
    assert meanings(dataset, "test") == [('"Ann"',), ("a|b", "c"), ("1990-05-02",)]
    assert meanings(dataset, "train")[2] == ("3.0",)
    assert dataset.examples("test")[0].table.title == "Cup|final"
    assert dataset.examples("train")[0].table.title == ""


def test_every_split_is_scored_by_the_official_rule_and_by_whether_training_has_the_table(root):
    seen = [*FILES["random-split-1-dev"], ("ns-1", "who?", "csv/204-csv/7.csv", "Bob")]
    write_questions(root, "pristine-seen-tables", seen)
    dataset = WikiTableQuestions(root)
    examples = {split: {example.example_id: example for example in dataset.examples(split)} for split in dataset.splits}
    for split, asked in examples.items():
        assert "official_accuracy" in official_accuracy({}, asked), split
    answers = {"nt-9": SystemAnswer(examples["seen"]["nt-9"].answer.texts)}
    scores = TableAnswers(answers).score(examples["seen"])
    assert (scores["official_accuracy/seen_tables"], scores["official_accuracy/unseen_tables"]) == (1, 0)
    parts = {"seen_tables": ["nt-9"], "unseen_tables": ["ns-1"]}
    assert {split: group_by_subset(asked) for split, asked in examples.items()} == {
        "train": {}, "dev": {}, "test": {}, "seen": parts
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["gztar", "zip", "xztar"])
def test_packed_files_and_folders_give_the_same_examples(root, kind):
    unpacked = everything(WikiTableQuestions(root))
    shutil.make_archive(str(root / "csv"), kind, root, "csv")
    shutil.rmtree(root / "csv")
    for path in (root / "data").iterdir():
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert not (root / "csv").exists()
    assert everything(WikiTableQuestions(root)) == unpacked


def test_questions_about_a_table_share_it(root):
    dataset = WikiTableQuestions(root)
    found = [example.table for split in ("train", "dev", "train") for example in dataset.examples(split)]
    assert len({id(table) for table in found}) == 1


def test_folds_and_the_whole_training_part(root):
    write_questions(root, "random-split-3-train", FILES["random-split-1-train"][:2])
    write_questions(root, "training", FILES["random-split-1-train"] + FILES["random-split-1-dev"])
    third, whole = WikiTableQuestions(root, fold=3), WikiTableQuestions(root, whole_train=True)
    assert (third.splits, len(third.examples("train"))) == (("train", "test"), 2)
    assert (whole.splits, len(whole.examples("train"))) == (("train", "dev", "test"), 6)
    with pytest.raises(DataError, match=r"no split 'dev'.*random-split-3-dev.tsv"):
        third.examples("dev")


def test_the_check_counts_answers_by_what_they_teach(root):
    report = WikiTableQuestions(root).check()
    assert report.problems == ()
    unusable = {"unusable: in several cells": 1, "unusable: not found": 1}
    expected = {"questions": 5, "tables": 1, "usable": 3, "cells": 2, "number": 1} | unusable
    assert {name: report.counts["train"][name] for name in expected} == expected


def damage_table(root, text):
    (root / "csv/204-csv/7.csv").write_bytes(text)


DAMAGE = {
    "no table": (lambda root: (root / "csv/204-csv/7.csv").unlink(), "csv/204-csv/7.csv: is not there"),
    "long row": (lambda root: damage_table(root, b"a,b\n1,2\n1,2,3\n"), "row 1 has 3 cells under 2 headers"),
    "columns": (lambda root: write(root / "data/pristine-unseen-tables.tsv", "id\tx\n"), "has no column utterance"),
    "fields": (
        lambda root: write_questions(root, "pristine-unseen-tables", [("nu-7", "what?")]),
        "line 2: has 2 fields, not 4",
    ),
    "question": (
        lambda root: write_questions(root, "pristine-unseen-tables", [("nu-7", " ", "csv/204-csv/7.csv", "x")]),
        "nu-7: the question is empty",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named_once_and_can_be_left_out(root, name):
    spoil, message = DAMAGE[name]
    spoil(root)
    with pytest.raises(DataError, match=message):
        WikiTableQuestions(root).examples("test")
    (problem,) = WikiTableQuestions(root).check().problems
    assert re.search(message, str(problem))
    with pytest.warns(UserWarning, match="1 problem"):
        assert WikiTableQuestions(root, damaged="skip").examples("test") == []
    assert len(WikiTableQuestions(root).examples("train")) == 5


def test_short_rows_are_filled_up_and_noted(root):
    damage_table(root, b"a,b\n\n1\n2,3\n")
    dataset = WikiTableQuestions(root)
    assert cells(dataset.examples("test")[0].table) == [["1", ""], ["2", "3"]]
    assert "csv/204-csv/7.csv: rows that were too short and got empty cells: 1" in map(str, dataset.check().notes)


@pytest.fixture(scope="module")
def real():
    return WikiTableQuestions(shared("data", "wtq"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("split", "questions", "tables", "unusable"), [("dev", 2831, 346, 253), ("test", 3491, 332, 286)]
)
def test_the_released_splits(real, split, questions, tables, unusable):
    examples = real.examples(split)
    assert (len(examples), len({id(example.table) for example in examples})) == (questions, tables)
    assert sum(bool(example.answer.source) for example in examples) == unusable
    assert all(example.table.title for example in examples)
    assert all(example.answer.canonical for example in examples)
