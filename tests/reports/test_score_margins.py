"""The histogram of score margins, from what runs recorded of single questions."""

from __future__ import annotations

import pytest

from mate_cli.reports.compare.report import build_report
from mate_cli.reports.plots.figures import Margins, margins_text, read_margins, score_margins, write_figures
from tests.reports.answered import question_row, write_rows
from tests.reports.runs import build_run

MARGINS = {1: (0.5, -0.25, 1.0), 2: (0.5, 0.75)}


def record(folder, seed, split="test", **config):
    run = build_run(
        folder, model="dot", seed=seed, steps=0, metrics={f"{split}/hits@1": 0.5, f"{split}/score_margin": 0.4}
    )
    rows = [question_row(place, score_margin=value) for place, value in enumerate(MARGINS[seed])]
    write_rows(run, [*rows, question_row(9, kept=0.0)], split)


def test_all_seeds_of_a_configuration_make_one_histogram(tmp_path):
    for seed in MARGINS:
        record(tmp_path / f"dot{seed}", seed)
    build_run(tmp_path / "tapas", model="tapas", steps=0)
    report = build_report([tmp_path])
    (index,) = (place for place, group in enumerate(report.groups) if group.label == "dot")
    (scored,) = read_margins(report, "hybridqa")
    assert scored == Margins("dot", index, (*MARGINS[1], *MARGINS[2]))
    assert margins_text(scored.values) == "mean +0.500, above 0 for 80.0%"
    names = [file.name for file in write_figures(report, tmp_path / "figures")]
    assert {"score_margins_hybridqa.png", "score_margins_hybridqa.svg"} <= set(names)


def test_dev_is_drawn_where_test_has_none(tmp_path):
    record(tmp_path / "dot", 1, "dev")
    assert [scored.values for scored in read_margins(build_report([tmp_path]), "hybridqa")] == [MARGINS[1]]


def test_runs_that_score_nothing_have_no_such_figure(tmp_path):
    build_run(tmp_path / "tapas", model="tapas")
    assert read_margins(build_report([tmp_path]), "hybridqa") == []


def test_outlines_share_their_bins_and_add_up_to_all_questions():
    one, other = Margins("one", 0, (0.25,) * 3 + (-1.0,)), Margins("other", 3, (0.25, 2.0, -50.0) * 200)
    (axes,) = score_margins([one, other]).axes
    outlines = [patch for patch in axes.patches if not patch.get_fill()]
    edges = [patch.get_data().edges.tolist() for patch in outlines]
    assert edges[0] == edges[1]
    assert edges[0][0] < 0 < edges[0][-1]
    assert [patch.get_data().values.sum() for patch in outlines] == pytest.approx([100, 100])
    assert margins_text(one.values) == "mean -0.062, above 0 for 75.0%"


def test_equal_margins_are_drawn_too():
    (axes,) = score_margins([Margins("x", 0, (0.0, 0.0))]).axes
    assert axes.get_xlim()[0] < 0 < axes.get_xlim()[1]
