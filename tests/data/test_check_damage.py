"""What a check of a release says of damage that can be read all the same."""

import json

import pytest
from table_releases import WRITERS

from mate_cli.data.check import format_counts
from mate_cli.data.datasets.hybridqa.reader import is_cell
from mate_cli.data.datasets.sqa.reader import SQA
from mate_cli.data.datasets.tabfact.reader import TabFact
from mate_cli.data.datasets.wikisql.reader import WikiSQL
from mate_cli.data.datasets.wtq.reader import WikiTableQuestions
from mate_cli.tables.table import Cell, Table

READERS = {"sqa": SQA, "wtq": WikiTableQuestions, "tabfact": TabFact, "wikisql": WikiSQL}


def text(file, old, new):
    def change(root):
        path = root / file
        before = path.read_bytes().decode()
        assert old in before
        path.write_text(before.replace(old, new, 1), encoding="utf-8", newline="")

    return change


def tabfact(key, value):
    def change(root):
        path = root / "tokenized_data" / "train_examples.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))

    return change


SQA_TRAIN, WTQ_TRAIN = "random-split-1-train.tsv", "data/random-split-1-train.tsv"
WTQ_DEV = "data/random-split-1-dev.tsv"
WTQ_TABLE = "csv/200-csv/1.csv"
TWICE = '{"2-1-1.html.csv": [["a"], [1], "c"], '
DAMAGE = {
    "an open quotation": ("wtq", text(WTQ_TABLE, '"Bob","3"', '"Bob","3'), "a quotation mark is never closed"),
    "NUL": ("sqa", text("table_csv/203_1.csv", "Bob", "B\0ob"), "contains NUL characters"),
    "a blank answer": ("wtq", text(WTQ_TRAIN, "\tAnn\n", "\t\n"), "nt-0: the question has no answer"),
    "a blank answer in SQA": ("sqa", text(SQA_TRAIN, "['Ann Lee', ", "['', "), "says 'Ann Lee'"),
    "more fields": ("wtq", text(WTQ_TRAIN, "\tAnn\n", "\tAnn\tmore\n"), "has 5 fields, not 4"),
    "more fields in SQA": ("sqa", text(SQA_TRAIN, "['Bob Stone']\"\n", "['Bob Stone']\"\tmore\n"), "more fields than"),
    "a blank id": ("wtq", text(WTQ_TRAIN, "nt-0\t", "\t"), "the question has no id"),
    "a header only": ("wtq", text(WTQ_DEV, "nt-9\twho?\tcsv/200-csv/1.csv\tBob\n", ""), "no valid"),
    "a table without rows": ("sqa", text("table_csv/203_1.csv", "Ann Lee,3\nBob Stone,4\n", ""), "has no cell"),
    "no rows": ("tabfact", text("data/all_csv/2-1-3.html.csv", "1990#bern\r\n", ""), "the table has no rows"),
    "no statements": ("tabfact", tabfact("2-1-1.html.csv", [[], [], "c"]), "has no statements"),
    "a key twice": ("tabfact", text("tokenized_data/train_examples.json", "{", TWICE), "occurs twice in an object"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_check_names_what_is_wrong(name, tmp_path):
    dataset, change, message = DAMAGE[name]
    root = WRITERS[dataset](tmp_path / dataset)
    before = READERS[dataset](root, damaged="skip").check().problems
    assert not any(message in str(problem) for problem in before)
    change(root)
    problems = READERS[dataset](root, damaged="skip").check().problems
    assert any(message in str(problem) for problem in problems), list(map(str, problems))


@pytest.mark.parametrize("place", [[2, 0], [0, 1], [-1, 0], ["0", 0], [0], None, [0, 0.0], [True, 0]])
def test_an_answer_node_is_a_cell_of_its_table(place):
    table = Table("t", (Cell("a"),), ((Cell("1"),), (Cell("2"),)))
    assert is_cell([1, 0], table)
    assert not is_cell(place, table)


def test_one_of_a_kind_is_in_the_singular():
    assert format_counts({"queries": 1, "tables": 1, "series: new": 1}) == "1 query, 1 table, 1 series: new"
