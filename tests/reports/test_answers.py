"""Answers in the terminal, on the page and in files: what is shown of a table, and how."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from mate_cli.errors import ConfigError
from mate_cli.reports.answers.files import WRITERS, check_output, entry
from mate_cli.reports.answers.terminal import (
    answer_text,
    computed_text,
    confidence_text,
    numeric_columns,
    pick_neighbours,
    print_answered,
    print_session,
    window,
)
from mate_cli.tables.questions import Session, TableAnswerResult
from mate_cli.tables.table import Cell, Table


def answered(rows=3, columns=2, **facts):
    header = tuple(Cell(f"name {column}") for column in range(columns))
    body = tuple(tuple(Cell(f"r{row}c{column}") for column in range(columns)) for row in range(rows))
    basics = {"source": "t.csv", "question": "why?", "table": Table("t", header, body), "rows_in_file": rows}
    return TableAnswerResult(**basics | {"row_numbers": tuple(range(1, rows + 1))} | facts)


def printed(one, width=80, encoding="utf-8"):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    print_answered(one, Console(file=file, width=width, highlight=False, emoji=False, markup=False))
    file.flush()
    return file.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"cells": ((0, 0), (1, 0)), "probabilities": (0.9, 0.8)}, "r0c0, r1c0"),
        ({"cells": ((0, 0),), "probabilities": (0.9,), "aggregation": "count", "value": 1.0, "answer": "1"}, "1"),
        ({"answer": "entailed", "verdict": True}, "entailed"),
        ({"failure": "too wide"}, "no answer: too wide"),
        ({"confidence": 0.31, "threshold": 0.5, "answer": "x"}, "abstained: 0.31 < 0.5"),
        ({"confidence": 0.5, "threshold": 0.5, "answer": "x", "verdict": True}, "x"),
    ],
)
def test_an_answer_in_words(facts, text):
    assert answer_text(answered(**facts)) == text


@pytest.mark.parametrize(
    ("facts", "sure"),
    [
        ({"confidence": 0.07}, "unsure"),
        ({"confidence": 0.92}, "given"),
        ({}, "given"),
        ({"confidence": 0.92, "failure": "too wide"}, "none"),
    ],
)
def test_an_answer_that_is_more_likely_wrong_does_not_look_right(facts, sure):
    one = answered(cells=((0, 0),), probabilities=(0.9,), **facts)
    assert f'class="answer {sure}"' in WRITERS[".html"](Session("model", [one]))


def test_of_many_cells_a_few_are_named():
    cells = tuple((row, 0) for row in range(30))
    assert answer_text(answered(rows=30, cells=cells, probabilities=(1.0,) * 30)).endswith("r9c0 and 20 more")


def test_how_a_value_was_computed():
    facts = {"cells": ((0, 0), (1, 0), (2, 0)), "probabilities": (0.9,) * 3, "aggregation": "sum"}
    assert computed_text(answered(**facts, value=1204.0, answer="1,204")) == "sum of 3 cells = 1,204"
    assert computed_text(answered(**facts)) == "sum of 3 cells"
    assert computed_text(answered()) == ""


def test_confidence_says_whether_it_is_calibrated():
    assert confidence_text(answered(confidence=0.314)) == "0.31 (uncalibrated)"
    assert confidence_text(answered(confidence=0.314, calibrated=True)) == "0.31"
    assert confidence_text(answered()) == ""


@given(st.integers(1, 60), st.integers(1, 15), st.data())
def test_what_is_wanted_first_is_shown_and_not_too_much(size, most, data):
    wanted = data.draw(st.lists(st.integers(0, size - 1), unique=True))
    shown = pick_neighbours(wanted, size, most)
    assert shown == sorted(set(shown))
    assert len(shown) == min(size, most)
    assert set(wanted[:most]) <= set(shown)


@given(st.integers(1, 40), st.integers(1, 12), st.data())
def test_rows_and_gaps_account_for_the_whole_table(rows, most, data):
    places = data.draw(st.lists(st.integers(0, rows - 1), unique=True))
    one = answered(rows=rows, cells=tuple((row, 1) for row in places), probabilities=(0.5,) * len(places))
    shown = window(one, most, 2)
    kept = [row for row in shown.rows if row is not None]
    assert len(kept) + shown.hidden_rows == rows
    assert sum(row not in kept for row in places) == shown.hidden_cells
    assert kept == sorted(set(kept))
    assert (None in shown.rows) == bool(shown.hidden_rows)


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", "● r1c1"), ("ascii", "* r1c1")])
def test_chosen_cells_are_marked_without_colour_too(encoding, mark):
    shown = printed(answered(cells=((1, 1),), probabilities=(0.9,)), encoding=encoding)
    assert mark in shown
    assert shown.count(mark[0]) == 1


def test_numbers_stand_on_the_right():
    lines = [("a", "1,204", "May 2024", ""), ("bb", "-3.5 %", "7", ""), ("c", "", "8", "")]
    table = Table("t", tuple(map(Cell, ("name", "n", "mixed", "empty"))), tuple(tuple(map(Cell, x)) for x in lines))
    one = answered(rows=3, table=table)
    assert numeric_columns(one, window(one, 9, 9)) == [False, True, False, False]
    assert " 1,204 " in printed(one)
    assert '<td class="number">1,204</td>' in WRITERS[".html"](Session("model", [one]))


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("columns", [1, 5, 40])
def test_tables_fit_the_terminal(width, columns):
    one = answered(rows=30, columns=columns, cells=((17, columns - 1),), probabilities=(0.9,))
    lines = printed(one, width).splitlines()
    table = lines[next(n for n, line in enumerate(lines) if line.startswith("row")) :]
    assert max(map(len, table)) <= width
    assert any("18" in line and "●" in line for line in table)
    assert len(table) <= 20
    assert columns > 1 or ["⋯"] in [line.split() for line in table], "cells of hidden rows are empty"


def test_the_page_escapes_what_tables_hold():
    table = Table("t", (Cell("<b>"),), ((Cell("<script>alert(1)</script>"),),))
    one = answered(
        table=table, rows_in_file=1, row_numbers=(1,), cells=((0, 0),), probabilities=(1.0,), question="<i>?"
    )
    session = Session("model", [one], {"t.csv": ["<note>"]}, {"u.csv": "<bad>"})
    page = WRITERS[".html"](session)
    assert "<script" not in page
    for escaped in ("&lt;b&gt;", "&lt;i&gt;?", "&lt;note&gt;", "&lt;bad&gt;", "&lt;script&gt;"):
        assert escaped in page


def test_files_say_where_each_cell_stands():
    one = answered(rows=2, rows_in_file=900, row_numbers=(7, 812), cells=((1, 0),), probabilities=(0.75,))
    assert entry(one)["cells"] == [{"row": 812, "column": "name 0", "text": "r1c0", "probability": 0.75}]
    session = Session("model", [one])
    (row,) = json.loads(WRITERS[".json"](session))["answers"]
    assert (row["rows"], row["rows_looked_at"]) == (900, 2)
    assert "row 812, name 0: r1c0" in WRITERS[".csv"](session)


def test_only_known_kinds_of_files_are_written():
    check_output(None)
    check_output("a.HTML")
    with pytest.raises(ConfigError, match="unknown file type"):
        check_output("a.txt")


def test_a_place_that_cannot_be_written_is_known_before_any_work(tmp_path):
    check_output(str(tmp_path / "new" / "folder" / "a.json"))
    assert not list(tmp_path.iterdir())
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(ConfigError, match=r"output=.*a\.csv: is a folder"):
        check_output(str(tmp_path / "a.csv"))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"output=.*a\.csv: cannot be written"):
        check_output(str(tmp_path / "file" / "a.csv"))


def test_a_session_ends_with_its_speed(capsys):
    session = Session("model", [answered()] * 4, seconds={"tables": 1.0, "model": 2.0, "rows": 0.5, "answers": 2.0})
    print_session(session, Console(width=120))
    last = " ".join(capsys.readouterr().out.split("4 questions")[1].split())
    assert last.startswith("on 1 table: 2.0 questions per second (reading tables 1.0 s, loading the model 2.0 s,")
