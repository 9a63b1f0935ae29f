"""The tables beside questions: read from the data set of the runs, its right and its chosen cells marked."""

from __future__ import annotations

import re

import pytest

from mate_cli.data.datasets.catalogue import find_dataset
from mate_cli.reports.compare.questions import ModelAnswer, disagreements
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.page import render_page
from mate_cli.reports.sections import questions
from mate_cli.reports.sections.questions import AnswerTable, question_table, tables_of
from mate_cli.tables.text import table_matches
from tests.reports.answered import write_rows
from tests.reports.runs import build_run

SAMPLE = {"_target_": find_dataset("sample").target, "name": "sample", "download": False}


@pytest.fixture(scope="module")
def asked():
    """Two questions of the sample: the answer of one is in the table, that of the other in a passage."""
    examples = find_dataset("sample").open(None).examples("dev")
    return [next(one for one in examples if one.answer.source == source) for source in ("table", "passage")]


def build_answers(root, asked, data):
    """Two runs: mate chooses a right cell, tapas another one."""
    for model in ("mate", "tapas"):
        rows = []
        for example in asked:
            right = example.answer.coordinates[0]
            wrong = next(cell for *cell, _ in example.table.cells() if tuple(cell) not in example.answer.coordinates)
            row, column = right if model == "mate" else wrong
            rows.append(
                {
                    "question_id": example.example_id,
                    "question": example.question,
                    "pred": example.table.rows[row][column].text,
                    "answer": list(example.answer.texts),
                    "source": example.answer.source,
                    "cells": [[row, column, 0.9], [0, 0, 0.1]],
                    "scores": {"hits@1": float(model == "mate")},
                }
            )
        write_rows(build_run(root / model, model=model, metrics={}, steps=1, config={"data": data}), rows)
    return root


def questions_of(root):
    """The section of the page that shows questions."""
    return render_page(build_report([root]), root).partition('<section id="questions">')[2].partition("</section>")[0]


def test_right_and_chosen_cells_are_marked_and_a_linking_cell_is_said_to_be_one(tmp_path, asked):
    page = questions_of(build_answers(tmp_path, asked, SAMPLE))
    cards = {one.example_id: card for card in page.split("<li ")[1:] for one in asked if one.question in card}
    for example in asked:
        marks = dict(re.findall(r'<td class="(gold|chosen|gold chosen)">(.*?)</td>', cards[example.example_id]))
        row, column = example.answer.coordinates[0]
        assert example.table.rows[row][column].text in marks["gold chosen"]
        assert 'aria-label="chosen by mate"' in marks["gold chosen"]
        assert 'aria-label="chosen by tapas"' in marks["chosen"]
        inside = (row, column) in table_matches(example.table, example.answer.texts[0])
        assert ("●" if inside else "○") in marks["gold chosen"]
    linked, in_table = cards[asked[1].example_id], cards[asked[0].example_id]
    assert "links to a passage with the gold answer" in linked
    assert "links to a passage" not in in_table
    assert "Tables are not shown" not in page


def test_without_the_data_set_the_page_says_so(tmp_path, asked, monkeypatch):
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "tables_tok.tar.xz").write_bytes(b"..")
    monkeypatch.setattr(questions, "MAX_PACKED", 1)
    gone = {"_target_": find_dataset("hybridqa").target, "name": "hybridqa", "root": str(tmp_path / "nowhere")}
    for number, (data, reason) in enumerate(
        [
            (gone, "nowhere"),
            (gone | {"root": str(tmp_path / "large")}, "is packed and too large to read single tables from"),
            ({"_target_": "os.system", "root": "."}, "os.system is not a dataset of mate"),
            ({"name": "x"}, "the runs did not record the folder of their dataset"),
        ]
    ):
        page = questions_of(build_answers(tmp_path / str(number), asked, data))
        assert "<details" not in page
        assert reason in page.partition("Tables are not shown: ")[2]


def test_what_was_read_is_kept(tmp_path, asked, monkeypatch):
    groups = build_report([build_answers(tmp_path / "runs", asked, SAMPLE)]).groups
    found = disagreements(groups, "dev/hits@1")
    first, _ = tables_of(found, groups, "dev", tmp_path / "cache")
    monkeypatch.setattr(questions, "_read", None)
    again, missing = tables_of(found, groups, "dev", tmp_path / "cache")
    assert (again, missing) == (first, "")
    assert set(again) == {one.example_id for one in asked}


def test_cells_outside_the_table_are_left_out_and_hidden_ones_are_counted():
    rows = [[f"{row}.{column}" for column in range(3)] for row in range(30)]
    table = AnswerTable(["a", "b", "c"], rows, [(row, 1) for row in range(0, 30, 3)], [(0, 1)])
    cells = ((-1, 0), (30, 0), (2, 3), (29, 2))
    drawn = question_table(table, [ModelAnswer("mate", (("29.2", 1),), 0.0, cells)])
    shown = [(row, column) for row in drawn["shown"].rows for column in drawn["shown"].columns if row is not None]
    assert [drawn["text"](*cell) for cell in shown if cell in drawn["chosen"]] == ["29.2"]
    right = sum(cell in drawn["signs"] for cell in shown)
    assert f"{10 - right} marked cells among them" in drawn["legend"]
