"""Scores of different questions stand apart, in every renderer, and chance among few questions is told."""

from __future__ import annotations

import io
import json

import pytest

from mate_cli.reports.compare.report import build_report
from mate_cli.reports.compare.statistics import summarize
from mate_cli.reports.export.data_files import report_json, report_markdown
from mate_cli.reports.export.latex import report_latex
from mate_cli.reports.page import render_page
from mate_cli.reports.terminal import print_report
from mate_cli.terminal.console import Console
from tests.reports.answered import question_row, write_predictions
from tests.reports.runs import build_run


def asked(folder, model, score, questions, digest="", **options):
    """A run scored on so many dev questions."""
    told = {"questions": {"dev": f"{questions}:{digest}"}} if digest else {}
    metrics = {"dev/hits@1": score, "baseline/tfidf/dev/hits@1": 1 / questions}
    return build_run(folder, model=model, metrics=metrics, data={"train": 8, "dev": questions}, **told, **options)


def labels(report):
    return [(table.questions, [row.label for row in table.rows]) for table in report.tables]


def printed(report):
    console = Console(file=io.StringIO(), width=120, highlight=False)
    print_report(report, console, brief=True)
    return console.file.getvalue()


@pytest.fixture
def few_and_many(tmp_path):
    asked(tmp_path / "few", "mate", 0.125, 8, config={"trainer": {"limit_dev": 8}})
    asked(tmp_path / "many1", "tapas", 0.05, 40)
    asked(tmp_path / "many2", "sat", 0.025, 40)
    return build_report([tmp_path], published=False)


def test_runs_with_other_numbers_of_questions_stand_in_blocks_of_their_own(few_and_many):
    assert labels(few_and_many) == [("40 dev questions", ["tapas", "sat"]), ("8 dev questions", ["mate"])]
    assert few_and_many.groups[0].label == "tapas", "the best of most runs, not the best of fewest questions"


def test_the_baseline_is_never_a_mixture(few_and_many):
    rows = [[(row.cells[0].center, row.cells[0].spread) for row in table.baselines] for table in few_and_many.tables]
    assert rows == [[(1 / 40, None)], [(1 / 8, None)]]


def test_a_baseline_that_depends_on_the_run_has_a_row_per_outcome(tmp_path):
    for model, known in (("mate", 0.5), ("sat", 0.7), ("tapas", 0.5)):
        build_run(tmp_path / model, model=model, metrics={"dev/em": 0.6, "baseline/majority/dev/em": known})
    (table,) = build_report([tmp_path], published=False).tables
    assert [(row.label, row.cells[0].center) for row in table.baselines] == [
        ("majority baseline, mate", 0.5),
        ("majority baseline, sat", 0.7),
    ]


@pytest.mark.parametrize("write", [printed, report_latex, report_markdown])
def test_every_renderer_says_the_number_of_questions_of_each_block(few_and_many, write):
    text = write(few_and_many)
    assert text.count("40 dev questions") >= 2, "above the table, and for chance"
    assert text.count("8 dev questions") >= 2
    assert "Wilson" in text


def test_the_page_says_the_number_of_questions_of_each_block(few_and_many, tmp_path):
    text = render_page(few_and_many, tmp_path)
    assert "Cell selection on hybridqa · 40 dev questions" in text
    assert "Best Dev Hits@1 on hybridqa, 40 dev questions" in text
    assert "on hybridqa, 8 dev questions" in text


def test_equal_numbers_of_other_questions_stand_apart_too(tmp_path):
    asked(tmp_path / "a", "mate", 0.5, 40, "aaa")
    asked(tmp_path / "b", "sat", 0.4, 40, "aaa")
    asked(tmp_path / "c", "tapas", 0.9, 40, "bbb")
    report = build_report([tmp_path], published=False)
    assert [names for _, names in labels(report)] == [["mate", "sat"], ["tapas"]]
    assert len({group.block for group in report.groups}) == 2


def test_seeds_and_joined_runs_of_other_questions_share_no_row(tmp_path):
    asked(tmp_path / "a", "mate", 0.5, 40, "aaa", seed=1)
    asked(tmp_path / "b", "mate", 0.1, 40, "bbb", seed=2)
    assert [len(group.counted) for group in build_report([tmp_path]).groups] == [1, 1]
    assert [len(group.counted) for group in build_report([tmp_path], by=["model"]).groups] == [1, 1]


def test_an_unfinished_seed_stays_with_its_configuration(tmp_path):
    asked(tmp_path / "a", "mate", 0.5, 40, "aaa", seed=1)
    build_run(tmp_path / "b", seed=2, status="running", data={"train": 8, "dev": 39})
    assert [len(group.runs) for group in build_report([tmp_path]).groups] == [2]


def test_nothing_is_marked_where_few_questions_explain_the_difference(tmp_path):
    asked(tmp_path / "a", "mate", 16 / 21, 21)
    asked(tmp_path / "b", "sat", 15 / 21, 21)
    (table,) = build_report([tmp_path], published=False).tables
    assert {table.mark(0, row.cells[0]) for row in table.rows} == {""}
    asked(tmp_path / "c", "tapas", 2 / 21, 21)
    (table,) = build_report([tmp_path], published=False).tables
    assert [table.mark(0, row.cells[0]) for row in table.rows] == ["best", "close", ""]


def test_two_equal_seeds_on_few_questions_say_the_error_of_the_questions(tmp_path):
    for seed in (1, 2):
        asked(tmp_path / f"{seed}", "mate", 16 / 21, 21, seed=seed)
    text = printed(build_report([tmp_path], published=False))
    assert "76.2 ±0.0" in text
    assert "54.9 to 89.4 for 76.2 on 21 dev questions" in text


def test_the_interval_is_wilsons():
    """Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3."""
    for right, count, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert summarize([right / count], questions=count).interval == pytest.approx((low, high), abs=5e-5)


def test_differences_are_judged_by_newcombes_interval():
    """Newcombe 1998, table II, method 10: lower ends 0.0524, 0.1705 and, of 5/56 less 0/29, -0.0381."""
    assert not summarize([56 / 70], questions=70).is_close(summarize([48 / 80], questions=80))
    assert not summarize([9 / 10], questions=10).is_close(summarize([3 / 10], questions=10))
    assert summarize([5 / 56], questions=56).is_close(summarize([0.0], questions=29))


def test_json_says_how_many_questions_a_score_is_of(few_and_many):
    entries = json.loads(report_json(few_and_many))["configurations"]
    assert [entry["metrics"]["dev/hits@1"]["questions"] for entry in entries] == [40, 40, 8]


def fold(root, model, number, rights, *, seed=1):
    """A run of a cross-validation that answered so many of ten questions of its own part."""
    rows = [question_row(10 * number + place, hits=float(place < rights)) for place in range(10)]
    config = {"data": {"folds": 2, "dev_fold": number, "name": "files"}}
    folder = root / f"{model}{number}{seed}"
    asked(folder, model, rights / 10, 10, f"part{number}", config=config, seed=seed)
    write_predictions(folder, json.dumps(rows))


@pytest.fixture
def two_folds(tmp_path):
    for model, right in (("mate", (9, 3)), ("tapas", (4, 4))):
        for number in (1, 2):
            fold(tmp_path, model, number, right[number - 1])
    fold(tmp_path, "mate", 1, 5, seed=2)
    fold(tmp_path, "mate", 2, 5, seed=2)
    return tmp_path


def test_folds_are_one_row_with_the_mean_over_the_questions_of_all(two_folds):
    report = build_report([two_folds], published=False, against="tapas")
    assert labels(report) == [("20 dev questions in 2 of 2 folds", ["mate", "tapas"])]
    rows = [(row.repeats, row.cells[0].center, row.cells[0].questions) for row in report.tables[0].rows]
    assert rows == [(2, pytest.approx(0.55), 20), (1, pytest.approx(0.4), 20)]
    (difference,) = report.significance.differences
    assert (difference.questions, difference.runs) == (20, 2)
    assert difference.difference == pytest.approx(0.15)
    assert "mean over the questions of all its folds" in printed(report).replace("\n", " ")


def test_a_cross_validation_that_lacks_a_fold_is_not_ranked_with_whole_ones(two_folds):
    fold(two_folds, "sat", 1, 10)
    tables = labels(build_report([two_folds], published=False))
    assert tables == [
        ("20 dev questions in 2 of 2 folds", ["mate", "tapas"]),
        ("10 dev questions in 1 of 2 folds", ["sat"]),
    ]


def test_the_baseline_of_folds_is_the_mean_over_them(two_folds):
    for path in two_folds.glob("mate2*/record.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps(record | {"metrics": record["metrics"] | {"baseline/tfidf/dev/hits@1": 0.3}}))
    (table,) = build_report([two_folds], published=False).tables
    assert sorted(row.cells[0].center for row in table.baselines) == pytest.approx([0.1, 0.2])
