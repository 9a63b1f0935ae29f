"""Labelled questions of one's own, as people write them down."""

import io
import json
import pickle
import tarfile
from pathlib import Path
from typing import NamedTuple

import datasets
import pytest

from mate_cli.cli.app import main
from mate_cli.data.datasets.labelled.sources import HubDataset, LabelledFiles
from mate_cli.errors import DataError
from mate_cli.metrics.denotation_accuracy import right_denotations
from mate_cli.papers.dt_fixup.databases.row_databases import RowDatabases

MATE_TESTS = Path(__file__).parents[1]

LISTS = [["region", "sales"], ["north", 1204], ["south", 870.0], ["west", None]]
OBJECTS = [{"region": "north", "sales": 1204}, {"region": "south", "sales": 870.0}, {"region": "west"}]
PARTS = {"header": LISTS[0], "rows": LISTS[1:]}
ASKED = {"question": "who sold most?", "table": LISTS}
CSV = "region,sales\nnorth,1204\nsouth,870\n"


class Selection(NamedTuple):
    cells: tuple
    aggregation: str


def lines(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path.name


def read(tmp_path, *rows, split="train", **options):
    """The examples of rows in a file of JSON lines."""
    given = {"dev_share": 0.0, **options}
    data = LabelledFiles(root=tmp_path, **{split: lines(tmp_path / "rows.jsonl", rows)}, **given)
    return data.examples(split)


def texts(table):
    return [[cell.text for cell in row] for row in (table.header, *table.rows)]


@pytest.mark.parametrize("table", [LISTS, OBJECTS, PARTS, "sales.csv"], ids=["lists", "objects", "parts", "path"])
def test_a_table_is_written_in_any_of_four_ways(tmp_path, table):
    (tmp_path / "sales.csv").write_text(CSV + "west,\n")
    (example,) = read(tmp_path, {"question": "who?", "table": table, "answer": "north"})
    assert texts(example.table) == [["region", "sales"], ["north", "1204"], ["south", "870"], ["west", ""]]
    assert (example.example_id, example.answer.texts, example.answer.coordinates) == ("rows-1", ("north",), ((0, 0),))


def test_equal_tables_are_one(tmp_path):
    first, second, other = read(tmp_path, ASKED, ASKED, {**ASKED, "title": "2024"})
    assert first.table is second.table
    assert (other.table.title, first.table.table_id != other.table.table_id) == ("2024", True)


@pytest.mark.parametrize("answer", [None, []])
def test_a_question_may_be_unanswerable(tmp_path, answer):
    known, null = read(tmp_path, {**ASKED, "answer": "north"}, {**ASKED, "answer": answer})
    assert (known.answer.is_null, null.answer.is_null) == (False, True)
    assert (null.outcome, null.answer.aggregation) == ("no answer in this table", "none")
    assert read(tmp_path, {**ASKED, "answer": answer})[0].answer is None, "no row of the file has an answer"
    assert read(tmp_path, {**ASKED, "answer": "north"}, ASKED)[1].answer is None


def test_a_table_that_cannot_be_read_is_one_problem(tmp_path):
    for name in ("a.pages", "b.sqlite"):
        (tmp_path / name).write_bytes(b"x")
    rows = [{"question": f"{n}?", "table": name, "answer": "x"} for name in ("a.pages", "b.sqlite") for n in range(6)]
    report = LabelledFiles(root=tmp_path, train=lines(tmp_path / "rows.jsonl", rows), dev_share=0.0).check()
    first, second = (problem.what for problem in report.problems)
    assert ("a.pages" in first, "6 rows" in first) == (True, True)
    assert "data.database=" in second


def test_the_check_takes_unanswerable_questions_for_no_problem(tmp_path):
    rows = [{**ASKED, "answer": "north"}, {**ASKED, "answer": []}, ASKED]
    report = LabelledFiles(root=tmp_path, train=lines(tmp_path / "rows.jsonl", rows), dev_share=0.0).check()
    assert (report.problems, report.counts["train"]["no answer in this table"]) == ((), 1)
    assert [note.key for note in report.notes] == ["rows-3"]


KNOWN = {
    "texts": ({"answers": ["north", "south"]}, ("north", "south"), ((0, 0), (1, 0)), None),
    "a number in a cell": ({"answer": 1204}, ("1204",), ((0, 1),), 1204.0),
    "a computed number": ({"number": 2074, "aggregation": "sum"}, ("2074",), (), 2074.0),
    "coordinates": ({"coordinates": [[1, 0]]}, ("south",), ((1, 0),), None),
    "names of columns": ({"cells": [[1, "region"], [0, "sales"]]}, ("south", "1204"), ((1, 0), (0, 1)), None),
}


@pytest.mark.parametrize("name", KNOWN)
def test_answers_are_texts_cells_or_numbers(tmp_path, name):
    given, known, cells, number = KNOWN[name]
    answer = read(tmp_path, {**ASKED, **given})[0].answer
    assert (answer.texts, answer.coordinates, answer.number) == (known, cells, number)
    assert answer.aggregation == given.get("aggregation")


@pytest.mark.parametrize(("label", "known"), [(1, 1), (False, 0), ("Entailed", 1), ("refuted", 0)])
def test_statements_have_labels(tmp_path, label, known):
    (example,) = read(tmp_path, {"statement": "the north sold most", "table": LISTS, "label": label})
    assert (example.answer.label, example.answer.texts) == (known, (("refuted", "entailed")[known],))


def test_an_answer_in_several_cells_teaches_nothing_unless_all_may_hold_it(tmp_path):
    row = {"question": "who?", "table": [["a", "b"], ["x", "x"]], "answer": "x"}
    assert read(tmp_path, row)[0].answer.coordinates == ()
    assert read(tmp_path, row, find="holding")[0].answer.coordinates == ((0, 0), (0, 1))
    assert read(tmp_path, row, split="dev")[0].answer.coordinates == ((0, 0),)
    assert read(tmp_path, {**row, "answer": None}, split="dev")[0].answer is None


def test_passages_are_linked_to_cells(tmp_path):
    passages = [{"row": 0, "column": "region", "text": "The north is led by Anna Berg.", "title": "North"}]
    (example,) = read(tmp_path, {**ASKED, "answer": "Anna Berg", "passages": passages})
    assert example.table.rows[0][0].links == ("North",)
    assert example.table.passages == {"North": "The north is led by Anna Berg."}
    assert (example.answer.coordinates, example.answer.source) == (((0, 0),), "passage")
    (tmp_path / "linked.json").write_text(json.dumps(passages))
    (other,) = read(tmp_path, {**ASKED, "answer": "Anna Berg", "passages": "linked.json"})
    assert other.table == example.table


def test_questions_of_a_conversation_follow_each_other(tmp_path):
    turns = [{**ASKED, "conversation": "a", "cells": [[0, 0]]}, {**ASKED, "conversation": "b", "answer": "west"}]
    last = {**ASKED, "question": "and what?", "conversation": "a", "cells": [[0, 1]]}
    found = read(tmp_path, *turns, last)
    assert [example.history for example in found] == [(), (), ("who sold most?",)]
    assert found[2].previous_cells == ((0, 0),)


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "parquet"])
def test_questions_stand_in_a_spreadsheet(tmp_path, suffix):
    import pandas as pd

    (tmp_path / "sales.csv").write_text(CSV)
    rows = {"Question": ["who?", "where?"], "Table": ["sales.csv"] * 2, "Answer": ["north | south", "870"]}
    rows["Table"][1] = json.dumps(LISTS)
    frame = pd.DataFrame({**rows, "Cells": ["", "[[1, 1]]"], "Remark": ["", "sure"]})
    name = f"asked.{suffix}"
    {"csv": frame.to_csv, "xlsx": frame.to_excel, "parquet": frame.to_parquet}[suffix](tmp_path / name, index=False)
    data = LabelledFiles(root=tmp_path, dev=name)
    first, second = data.examples("dev")
    assert (first.answer.texts, first.answer.coordinates) == (("north", "south"), ((0, 0), (1, 0)))
    assert (second.answer.texts, second.answer.coordinates) == (("870",), ((1, 1),))
    assert [note.what for note in data.notes] == ["not read: Remark"]


WRONG = {
    "has no question": {"table": LISTS},
    "has neither a table nor a database": {"question": "who?"},
    "its table nope.csv was not found": {"question": "who?", "table": "nope.csv"},
    "the table should be a list of rows": {"question": "who?", "table": 3},
    "row 0 of the table has 3 cells under 1 headers": {"question": "who?", "table": [["a"], [1, 2, 3]]},
    "the table has no cell [5, 0], but 3 rows, 2 columns": {**ASKED, "coordinates": [[5, 0]]},
    "[0, cost] is not a row and column; columns here: region, sales": {**ASKED, "coordinates": [[0, "cost"]]},
    "coordinates should be a list of [row, column]": {**ASKED, "coordinates": 0},
    "label is perhaps, not 1 or 0": {**ASKED, "label": "perhaps"},
    "many is not a number": {**ASKED, "number": "many"},
    "aggregation is product": {**ASKED, "number": 3, "aggregation": "product"},
    "passage 0 has no text": {**ASKED, "passages": [{"row": 0, "column": 0}]},
    "its passages rows.jsonl are not JSON": {**ASKED, "passages": "rows.jsonl"},
    "passages should be a list": {**ASKED, "passages": {"row": 0}},
    "a row of the table is not a list": {"question": "who?", "table": [["a"], 1]},
    'or {"header": [...], "rows": [[...], ...]}': {"question": "who?", "table": {"header": 3, "rows": []}},
}


@pytest.mark.parametrize("problem", WRONG)
def test_what_is_wrong_with_a_row_is_said(tmp_path, problem):
    with pytest.raises(DataError) as caught:
        read(tmp_path, {**ASKED, "answer": "north"}, {**WRONG[problem], "id": "q7"})
    assert problem in str(caught.value)
    assert "q7" in str(caught.value)
    assert "mate data check data=files data.train=rows.jsonl" in str(caught.value)


def test_a_check_lists_every_row_that_is_wrong(tmp_path):
    rows = [{**ASKED, "answer": "north"}, *({"id": name, "table": LISTS} for name in "abc")]
    problems = LabelledFiles(root=tmp_path, train=lines(tmp_path / "rows.jsonl", rows)).check().problems
    assert [problem.what for problem in problems].count("has no question") == 3


def test_two_questions_of_one_id_are_said(tmp_path):
    with pytest.raises(DataError, match="the id 'q7' occurs twice"):
        read(tmp_path, *({**ASKED, "answer": "north", "id": "q7"} for _ in range(2)))


def test_development_questions_are_set_apart_by_table(tmp_path):
    rows = [{"question": f"q{n % 3}", "table": [["a"], [f"x{n // 3}"]], "answer": f"x{n // 3}"} for n in range(60)]
    data = LabelledFiles(root=tmp_path, train=lines(tmp_path / "rows.jsonl", rows), dev_share=0.25)
    train, dev = data.examples("train"), data.examples("dev")
    tables = [{example.table.table_id for example in split} for split in (train, dev)]
    assert (len(train), len(dev), len(tables[1])) == (45, 15, 5)
    assert tables[0].isdisjoint(tables[1])
    few = LabelledFiles(root=tmp_path, train=lines(tmp_path / "few.jsonl", rows[:9]), dev_share=0.25)
    assert (len(few.examples("train")), len(few.examples("dev"))) == (7, 2)


def test_each_fold_is_dev_once(tmp_path):
    rows = [{"question": f"q{n % 3}", "table": [["a"], [f"x{n // 3}"]], "answer": f"x{n // 3}"} for n in range(36)]
    options = {"root": tmp_path, "train": lines(tmp_path / "rows.jsonl", rows), "folds": 5}
    dev, tables = [], []
    for fold in range(1, 6):
        data = LabelledFiles(**options, dev_fold=fold)
        train, own = data.examples("train"), data.examples("dev")
        assert len(train) + len(own) == 36
        tables += [{example.table.table_id for example in own}]
        assert tables[-1].isdisjoint(example.table.table_id for example in train)
        dev += [example.example_id for example in own]
    assert len(dev) == len(set(dev)) == 36
    assert sorted(map(len, tables)) == [2, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"folds": 5}, "no fold null of 5. Type data.folds=5 with data.dev_fold=1 to 5."),
        ({"folds": 3, "dev_fold": 4}, "no fold 4 of 3. Type data.folds=3 with data.dev_fold=1 to 3."),
        ({"dev_fold": 1}, "no fold 1 of null. Type data.folds=5 with data.dev_fold=1 to 5."),
        ({"folds": 3, "dev_fold": 1, "dev": "dev.jsonl"}, "folds are parts of data.train. Leave it out"),
        ({"folds": 3, "dev_fold": 1}, "3 folds of 2 tables or questions"),
    ],
)
def test_folds_that_there_are_not_are_refused(tmp_path, options, told):
    with pytest.raises(DataError, match=told):
        read(tmp_path, ASKED, ASKED, **options)


def test_a_dataset_of_the_datasets_library_is_read_likewise(tmp_path):
    rows = [{"query": f"who {n}?", "table": PARTS | {"rows": [["north", "1"]]}, "answers": ["north"]} for n in range(4)]
    table = datasets.Dataset.from_list(rows)
    saved = tmp_path / "saved"
    datasets.DatasetDict({"train": table, "validation": table.select([0])}).save_to_disk(saved)
    data = HubDataset(name=str(saved), columns={"question": "query"})
    assert data.splits == ("train", "dev")
    assert [example.question for example in data.examples("train")] == [f"who {n}?" for n in range(4)]
    (example,) = data.examples("dev")
    assert (example.answer.coordinates, texts(example.table)[0]) == (((0, 0),), ["region", "sales"])
    with pytest.raises(DataError, match="cannot be loaded"):
        _ = HubDataset(name=str(tmp_path / "nowhere")).splits
    with pytest.raises(DataError, match=r"data.columns: rows have no quetsion. Rename one of id, question, table"):
        HubDataset(name=str(saved), columns={"quetsion": "query"})


def test_a_file_of_a_folder_that_no_library_can_read_is_one_line(tmp_path):
    with tarfile.open(tmp_path / "train-0.tar", "w") as archive:
        for name, content in (("a.json", b"{}"), ("a.pth", pickle.dumps({1: len}))):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with pytest.raises(DataError, match="cannot be loaded"):
        HubDataset(name=str(tmp_path)).examples("train")


def test_a_folder_is_kept_in_our_own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "theirs")
    folder = tmp_path / "asked"
    folder.mkdir()
    (folder / "train.jsonl").write_text(json.dumps(ASKED | {"answers": ["north"]}))
    assert len(HubDataset(name=str(folder)).examples("train")) == 1
    assert (tmp_path / "cache" / "hub").is_dir()
    assert not (tmp_path / "theirs").exists()


def test_the_command_checks_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [{**ASKED, "answer": "north"}, {**ASKED, "question": "how much?", "answer": "870"}]
    lines(tmp_path / "rows.jsonl", rows)
    assert main(["data", "check", "data=files", "data.train=rows.jsonl", "data.dev=rows.jsonl"]) == 2
    assert "question ids are in train too" in capsys.readouterr().out
    assert main(["data", "check", "data=files", "data.dev=rows.jsonl"]) == 0
    assert "cells or a number" in capsys.readouterr().out


def test_files_that_are_missing_are_named_before_anything_is_built(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines(tmp_path / "dev.jsonl", [ASKED])
    assert main(["train", "data=files", "data.train=nope.jsonl", "data.dev=dev.jsonl"]) == 2
    assert "nope.jsonl" in capsys.readouterr().err
    assert main(["train", "data=files"]) == 2
    assert "no file was given. Set data.train=FILE" in capsys.readouterr().err


LABEL_CASES = MATE_TESTS / "tables" / "cases" / "25_labels_as_people_write_them"


@pytest.mark.parametrize(
    ("file", "numbers"), [("q_num.csv", [2074]), ("q_num.xlsx", [2074, 0.125]), ("q_mixed.csv", [None, None, 3.5])]
)
def test_numbers_of_answers_are_read_as_people_write_them(file, numbers):
    if file.endswith(".xlsx"):
        pytest.importorskip("openpyxl")
    examples = LabelledFiles(root=LABEL_CASES, train=file, dev_share=0).examples("train")
    assert [example.answer.number for example in examples] == numbers


@pytest.mark.parametrize(("answer", "number"), [("1.204,50", 1204.5), ("1.204", 1204), ("1204.5", 1204.5)])
def test_an_answer_is_read_as_its_table_writes_numbers(tmp_path, answer, number):
    (tmp_path / "t.csv").write_text("artikel;preis\na;1.000,50\nb;204,00\n", encoding="utf-8")
    (example,) = read(tmp_path, {"question": "zusammen?", "table": "t.csv", "answer": answer, "aggregation": "sum"})
    assert example.answer.number == number
    assert right_denotations({"rows-1": Selection(((0, 1), (1, 1)), "sum")}, {"rows-1": example}) == {
        "rows-1": number == 1204.5
    }


def test_one_question_is_a_training_split_alone(tmp_path):
    data = LabelledFiles(root=tmp_path, train=lines(tmp_path / "rows.jsonl", [{**ASKED, "answer": "north"}]))
    assert data.splits == ("train",)
    assert not data.check().problems


@pytest.fixture
def shop(tmp_path):
    """A database of SQLite."""
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE orders (customer TEXT, price REAL)")
        connection.execute("INSERT INTO orders VALUES ('Ann', 2)")
    return tmp_path


ORDERS = {"question": "how many orders are there?", "sql": "SELECT count(*) FROM orders"}


@pytest.mark.parametrize("in_rows", [True, False])
def test_questions_with_queries_are_about_a_database(shop, in_rows):
    rows = [ORDERS | ({"database": "shop.sqlite"} if in_rows else {}), {"question": "who paid most?"}]
    rows[1] |= {"database": "shop.sqlite"} if in_rows else {}
    shared = None if in_rows else "shop.sqlite"
    data = LabelledFiles(
        root=shop, dev=lines(shop / "rows.jsonl", rows), database=shared, values=True, queries=RowDatabases
    )
    first, second = data.examples("dev")
    assert (first.answer.texts, first.outcome, first.subsets) == ((ORDERS["sql"],), "query", ("easy",))
    assert second.answer is None
    assert first.schema is second.schema
    assert [column.original for column in first.schema.columns[-2:]] == ["customer", "price"]
    assert ("Ann",) in first.schema.values


def test_a_query_that_cannot_be_read_teaches_nothing_and_is_named(shop):
    rows = [ORDERS, ORDERS | {"sql": "DELETE FROM orders", "id": "q7"}]
    data = LabelledFiles(root=shop, dev=lines(shop / "rows.jsonl", rows), database="shop.sqlite", queries=RowDatabases)
    assert [example.outcome for example in data.examples("dev")][1] == "unusable: its query cannot be read"
    assert ["its query cannot be read" in note.what for note in data.notes] == [True]
    assert sum("q7" in str(note) for note in data.check().notes) == 1  # and not again, with a remedy for cells


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (ORDERS | {"database": "gone.sqlite"}, "its database gone.sqlite was not found"),
        (ORDERS | {"database": "rows.jsonl"}, "its database cannot be used: "),
        ({"sql": ORDERS["sql"]}, "has no question"),
    ],
)
def test_what_is_wrong_with_a_database_of_a_row_is_said(shop, row, problem):
    rows = lines(shop / "rows.jsonl", [ORDERS, row | {"id": "q7"}])
    with pytest.raises(DataError) as caught:
        LabelledFiles(root=shop, dev=rows, database="shop.sqlite", queries=RowDatabases).examples("dev")
    assert problem in str(caught.value)
    assert "q7" in str(caught.value)


def test_unusable_questions_are_named_with_what_mends_them(tmp_path, monkeypatch, capsys):
    (tmp_path / "t.csv").write_text("name,town\nAda,Bath\nBo,Kiel\n")
    rows = "question,table,answer,coordinates\nwhere is Ada?,t.csv,Bath,\nwhere is Bo?,t.csv,Rome,{}\n"
    (tmp_path / "q.csv").write_text(rows.format(""))
    (tmp_path / "mended.csv").write_text(rows.format('"[[1, 1]]"'))
    monkeypatch.chdir(tmp_path)
    assert main(["data", "check", "data=files", "data.train=q.csv", "data.dev_share=0"]) == 0
    told = capsys.readouterr().out
    assert 'q.csv: q-2: "Rome" for "where is Bo?" is unusable, not found: write its cells as coordinates' in told
    assert main(["data", "check", "data=files", "data.train=mended.csv", "data.dev_share=0"]) == 0
    assert "unusable" not in capsys.readouterr().out


@pytest.mark.parametrize("text", ["a\u2028b", "a\x85b", "a\u2029b"])
def test_separators_inside_a_text_end_no_line_of_json(tmp_path, text):
    row = json.dumps({"question": text, "table": LISTS, "answer": "north"}, ensure_ascii=False)
    (tmp_path / "rows.jsonl").write_text(f"{row}\r\n{row}\n", encoding="utf-8", newline="")
    data = LabelledFiles(root=tmp_path, train="rows.jsonl", dev_share=0)
    assert [example.question for example in data.examples("train")] == [text, text]
