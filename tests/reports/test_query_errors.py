"""Errors in queries that all runs make, and that any of them makes."""

import io
import json

import pytest
from answered import write_predictions
from rich.console import Console
from runs import build_run

from mate_cli.papers.dt_fixup.query_errors import report_section
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.page import render_page
from mate_cli.reports.terminal import print_report

KINDS = {"c": "column_error", "s": "sketch_error", "b": "column_and_sketch_error"}


def write_run(folder, errors, *, seed=1, layers=2, score=0.5):
    """A run whose queries have these errors, a letter for each question: right, column, sketch, both."""
    config = {"model": {"extra": {"layers": layers}}}
    metrics = {"dev/exact_set_match": score}
    build_run(
        folder, model="relation_aware", task="sql_parsing", seed=seed, metrics=metrics, config=config, dataset="spider"
    )
    rows = [
        {
            "question_id": f"q{place}",
            "question": "?",
            "pred": "SELECT 1",
            "scores": {"exact_set_match": float(error == "r")}
            | {kind: float(error == letter) for letter, kind in KINDS.items()},
        }
        for place, error in enumerate(errors)
    ]
    write_predictions(folder, json.dumps(rows))


@pytest.fixture
def root(tmp_path):
    write_run(tmp_path / "few", "ccsbbrrr", layers=4, score=0.3)
    write_run(tmp_path / "many", "ccrbbsrr", layers=24, score=0.4)
    write_run(tmp_path / "standard", "bcrbbrrc", layers=8, score=0.2)
    return tmp_path


def tables(report):
    section = report_section(report, wide=False)
    return [(view.title, {row.label: [cell.text for cell in row.cells] for row in view.rows}) for view in section.views]


def test_questions_that_all_and_that_any_get_wrong(root):
    common, some = tables(build_report([root], published=False))
    assert common[0] == "spider: 4 of 8 questions that all 3 get wrong"
    # Of "cc.bb...": column, sketch or both.
    assert sorted(common[1].values()) == [
        ["100.0", "100.0", "50.0"],
        ["100.0", "100.0", "50.0"],
        ["100.0", "100.0", "75.0"],
    ]
    assert some[0] == "spider: 7 of 8 questions that any get wrong"
    (deep,) = (row for label, row in some[1].items() if "24" in label)
    assert deep == ["71.4", "57.1", "42.9"]


def test_two_configurations_and_their_median_run(root):
    write_run(root / "worse", "bbbbbbbb", seed=2, layers=24, score=0.1)
    write_run(root / "better", "rrrrrrrr", seed=3, layers=24, score=0.9)
    report = build_report([root / name for name in ("few", "many", "worse", "better")], published=False)
    common, _ = tables(report)
    assert common[0] == "spider: 4 of 8 questions that both get wrong"


def test_there_is_nothing_to_say_of_one_system_or_of_answers_that_are_texts(root, tmp_path):
    assert report_section(build_report([root / "few"], published=False), wide=False) is None
    for model in ("mate", "tapas"):
        build_run(tmp_path / "texts" / model, model=model)
    assert report_section(build_report([tmp_path / "texts"], published=False), wide=False) is None


def test_it_is_shown_on_the_page_and_in_the_terminal(root):
    report = build_report([root], published=False, added_sections=[report_section])
    assert 'id="query_errors"' in render_page(report, root)
    console = Console(file=io.StringIO(), width=100)
    print_report(report, console)
    assert "7 of 8 questions that any get wrong" in console.file.getvalue()
