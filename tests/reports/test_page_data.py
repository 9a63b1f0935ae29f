from __future__ import annotations

import json

import pytest

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.sections.cost_and_sweep import cost_content
from mate_cli.reports.sections.curves import list_logged_metrics, load_log, read_logs
from mate_cli.reports.sections.results import blocks_of, references
from tests.reports.runs import build_run
from tests.reports.study import build_study


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return build_report([build_study(tmp_path_factory.mktemp("outputs"), models=2, seeds=2, points=40, questions=24)])


def test_final_metrics_are_no_curve_and_a_clock_never_runs_backwards(tmp_path):
    rows = [{"step": step, "time": time, "train/loss": 1.0} for step, time in ((1, 5.0), (2, 9.0), (3, 1.0), (4, 12.0))]
    rows.append({"step": 4, "final/dev/em": 0.5, "baseline/tfidf/dev/em": 0.1})
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    log = load_log(tmp_path)
    assert list(log.curves) == ["train/loss"]
    assert [seconds for _, seconds in log.seconds] == [5.0, 9.0, 9.0, 12.0]
    assert log.epochs == []


def test_the_more_runs_the_fewer_points_of_each(tmp_path):
    report = build_report([build_study(tmp_path, models=16, seeds=5, points=160, questions=4)])
    lengths = {len(log.curves["train/loss"]) for one in read_logs(report, most=24) for _, log in one.logs}
    assert lengths == {80}


def test_without_costs_there_is_nothing_to_draw(tmp_path):
    nothing = {"throughput": {}, "parameters": 0, "wall_seconds": None, "peak_memory_mb": None}
    build_run(tmp_path / "run", **nothing)
    assert cost_content(build_report([tmp_path]))["data"] is None


def test_published_figures_are_those_of_the_models_compared(report):
    assert [line.label for line in references(report, MetricName.parse("dev/em"), "hybridqa")] == [
        "PointR + MATE",
        "PointR + TAPAS",
    ]
    assert references(report, MetricName.parse("train/loss"), "hybridqa") == []


def test_published_figures_stay_with_their_dataset_and_out_where_nobody_wants_them(tmp_path):
    build_run(tmp_path / "a", metrics={"dev/em": 0.5})
    build_run(tmp_path / "b", metrics={"dev/em": 0.6}, dataset="sqa")
    build_run(tmp_path / "c", metrics={"dev/em": 0.7}, dataset="sqa", seed=2)
    report = build_report([tmp_path])
    assert list(blocks_of(report)) == ["sqa", "hybridqa"]
    assert references(report, MetricName.parse("dev/em"), "sqa") == []
    assert references(build_report([tmp_path], published=False), MetricName.parse("dev/em"), "hybridqa") == []


def test_a_metric_logged_once_is_no_curve(tmp_path):
    run = build_run(tmp_path / "run", steps=0)
    rows = ({"step": 0, "dev/em": 0.5}, {"step": 1, "dev/f1": 1}, {"step": 2, "dev/f1": 1})
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert [m.full for m in list_logged_metrics(read_logs(build_report([tmp_path]), most=12))] == ["dev/f1"]
