from __future__ import annotations

import pytest

from mate_cli.reports.compare.report import build_report
from mate_cli.reports.sections.best_cells import report_section
from tests.reports.answered import question_row, write_rows
from tests.reports.runs import build_run

RANKED = {
    "right": ([[1, 2, 0.9], [0, 0, 0.1]], [[1, 2], [3, 3]]),
    "right row": ([[1, 2]], [[1, 0], [3, 3]]),
    "right column": ([[1, 2]], [[0, 2]]),
    "row and column of two cells": ([[1, 2]], [[1, 0], [0, 2]]),
    "wrong": ([[1, 2]], [[2, 1]]),
    "none": ([], [[1, 2]]),
    "no cell answers": ([[1, 2]], []),
}


def ranked(folder, names, **config):
    run = build_run(folder, metrics={"dev/hits@1": 0.5}, **config)
    rows = [question_row(number, hits=float(name == "right")) for number, name in enumerate(names)]
    for row, name in zip(rows, names, strict=True):
        row["cells"], row["answer_cells"] = RANKED[name]
    write_rows(run, rows)


def table(folder):
    (view,) = report_section(build_report([folder], metric="dev/hits@1"), wide=False).views
    return {row.label: [(cell.text, cell.spread) for cell in row.cells] for row in view.rows}


def test_rows_and_columns_are_looked_at_by_themselves(tmp_path):
    ranked(tmp_path / "mate", RANKED, model="mate")
    assert table(tmp_path) == {"mate": [("50.0", ""), ("50.0", ""), ("6", "")]}


def test_seeds_are_summed_up_as_scores_are(tmp_path):
    for seed, names in enumerate((["right", "right row"], ["wrong", "right row"])):
        ranked(tmp_path / str(seed), names, model="mate", seed=seed)
    assert table(tmp_path) == {"mate": [("75.0", "12.5"), ("25.0", "12.5"), ("2", "")]}


@pytest.mark.parametrize("score", ["em", "hits@3"])
def test_who_ranks_no_cells_has_no_row(tmp_path, score):
    write_rows(build_run(tmp_path / "a", metrics={}), [question_row(0, **{score: 1.0})])
    assert report_section(build_report([tmp_path], metric=f"dev/{score}"), wide=False) is None


def test_a_ranking_without_known_cells_says_nothing(tmp_path):
    ranked(tmp_path / "mate", ["no cell answers"], model="mate")
    assert report_section(build_report([tmp_path], metric="dev/hits@1"), wide=False) is None
