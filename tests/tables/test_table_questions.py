"""Which questions are asked of which tables: folders, patterns, and files of questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mate_cli.errors import ConfigError, DataError
from mate_cli.tables.questions import QuestionInput, find_tables, pair_up, read_questions


@pytest.fixture
def folder(tmp_path):
    for name in ("b.csv", "a.tsv", "notes.txt", ".hidden.csv", "~$open.xlsx", "image.png"):
        (tmp_path / name).write_text("a,b\n1,2\n")
    return tmp_path


def test_folders_patterns_and_files_are_found_once(folder):
    a, b = folder / "a.tsv", folder / "b.csv"
    assert find_tables([str(folder)]) == [a, b]
    assert find_tables([str(folder / "*.csv"), str(folder)]) == [b, a]
    assert find_tables([str(folder / "notes.txt")]) == [folder / "notes.txt"]


@pytest.mark.parametrize("place", ["none.csv", "*.parquet"])
def test_what_names_nothing_is_refused(folder, place):
    with pytest.raises(DataError, match="there is no such table"):
        find_tables([str(folder / place)])


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(DataError, match="no table in this folder"):
        find_tables([str(tmp_path)])


QUESTIONS = {
    "q.txt": "who?\n\n  where? \n",
    "objects.json": json.dumps([{"question": "who?"}, {"question": "where?"}]),
    "q.jsonl": '{"question": "who?"}\n{"question": "where?"}\n',
    "q.csv": "id,Question\n1,who?\n2,where?\n",
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_are_read(tmp_path, name):
    (tmp_path / name).write_text(QUESTIONS[name])
    assert read_questions(str(tmp_path / name)) == [QuestionInput("who?"), QuestionInput("where?")]


def test_questions_name_their_tables(folder):
    (folder / "q.csv").write_text("table,question\nb.csv,who?\na,where?\n,when?\n")
    asked = read_questions(str(folder / "q.csv"))
    tables = find_tables([str(folder / "a.tsv")])
    pairs = pair_up(asked, tables, folder)
    assert pairs == {folder / "a.tsv": ["where?", "when?"], folder / "b.csv": ["who?"]}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.txt", "\n", "it has no question"),
        ("q.csv", "id,text\n1,who?\n", "no column named question, only id, text"),
        ("q.txt", None, "questions cannot be read: no such file"),
    ],
)
def test_files_without_questions_are_refused(tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read_questions(str(tmp_path / name))


def test_what_is_missing_is_named(folder):
    with pytest.raises(ConfigError, match="question: no question given"):
        pair_up([], [folder / "a.tsv"], None)
    with pytest.raises(ConfigError, match="table: no table given"):
        pair_up([QuestionInput("who?")], [], None)
    with pytest.raises(DataError, match=r"c\.csv: a question names this table, which was not found"):
        pair_up([QuestionInput("who?", "c.csv")], [Path("a.csv")], folder)
