"""`sections=wrong`: the questions that one run answers wrongly, in the terminal, on the page and as CSV."""

from __future__ import annotations

import csv

import pytest

from mate_cli.cli.app import main
from tests.reports.answered import question_row, write_rows
from tests.reports.runs import build_run


@pytest.fixture
def run(tmp_path, monkeypatch):
    rows = [
        question_row(1, hits=0.0) | {"cells": [[0, 2, 0.4]], "answer_cells": [[0, 1]], "pred": "a town"},
        question_row(2, hits=1.0) | {"cells": [[1, 1, 0.99]], "answer_cells": [[1, 1]]},
        question_row(3, hits=0.0) | {"cells": [[3, 3, 0.95]], "answer_cells": [[2, 2]], "pred": "=1+1"},
        question_row(4, hits=0.0) | {"pred": ""},
    ]
    write_rows(build_run(tmp_path / "run", metrics={"dev/hits@1": 0.25}), rows)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path / "run"


def test_the_terminal_shows_them_surest_first(run, capsys):
    assert main(["compare", "run", "sections=wrong", "html=null"]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(text.split())
    assert words.index("place 3") < words.index("place 1") < words.index("place 4")
    assert "place 2" not in words
    first = next(line for line in lines if "=1+1" in line)
    assert "4:4" in first
    assert "0.95" in first
    assert "wrong number; wrong" in words
    assert "no answer" in words
    assert "3 of 4 questions are answered incorrectly" in words


def test_without_confidences_none_is_said_to_be_surest(run, capsys):
    write_rows(run, [question_row(1, hits=0.0) | {"pred": "a town"}])
    assert main(["compare", "run", "sections=wrong", "html=null"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "surest" not in text
    assert "1 of 1 questions are answered incorrectly; the run recorded no confidence" in text


def test_the_file_has_all_of_them_and_no_formula(run):
    assert main(["compare", "run", "sections=wrong", "csv=wrong.csv", "html=null"]) == 0
    rows = list(csv.DictReader((run.parent / "wrong.csv").open()))
    assert [(row["question_id"], row["answer"], row["right_answer"], row["cells"]) for row in rows] == [
        ("q003", "'=1+1", "place 3", "4:4"),
        ("q001", "a town", "place 1", "1:3"),
        ("q004", "", "place 4", ""),
    ]
    assert [row["confidence"] for row in rows] == ["0.95", "0.4", ""]
    assert rows[1]["kind"].endswith("right row, wrong column")


def test_the_page_of_one_run_has_them(run):
    assert main(["compare", "run"]) == 0
    assert "Wrong answers on dev" in (run / "compare.html").read_text()


def test_several_runs_and_none_with_predictions_are_refused_in_one_line(run, capsys):
    build_run(run.parent / "other", model="sat")
    assert main(["compare", "run", "other", "sections=wrong"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: sections=wrong: ")
    assert "not 2" in line
    assert main(["compare", "other", "sections=wrong"]) == 2
    assert "needs predictions" in capsys.readouterr().err
    assert not (run.parent / "other" / "compare.html").exists()
