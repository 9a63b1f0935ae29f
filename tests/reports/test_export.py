from __future__ import annotations

import csv
import io
import json
import math

import pytest

from mate_cli.reports.compare.report import build_report
from mate_cli.reports.export.data_files import report_csv, report_json
from tests.reports.runs import build_demo, build_run


def test_json_holds_configurations_and_runs(tmp_path):
    content = json.loads(report_json(build_report([build_demo(tmp_path)])))
    assert (len(content["configurations"]), len(content["runs"]), content["metric"]) == (6, 13, "dev/hits@1")
    tapas = next(one for one in content["configurations"] if one["model"] == "tapas")
    runs = [run["metrics"]["dev/hits@1"] for run in content["runs"] if run["model"] == "tapas"]
    assert tapas["metrics"]["dev/hits@1"]["mean"] == pytest.approx(sum(runs) / 3)
    assert tapas["n"] == 3


def test_json_cannot_hold_nan(tmp_path):
    build_run(tmp_path / "run", metrics={"dev/em": math.nan})
    text = report_json(build_report([tmp_path]))
    assert json.loads(text, parse_constant=pytest.fail)["runs"][0]["metrics"] == {"dev/em": None}


def test_csv_has_a_line_per_run_and_a_column_per_metric(tmp_path):
    rows = list(csv.DictReader(io.StringIO(report_csv(build_report([build_demo(tmp_path)])))))
    assert len(rows) == 13
    assert float(rows[0]["dev/hits@1"]) > 0.7
    assert next(row["reason"] for row in rows if row["status"] == "failed").startswith("OutOfMemoryError")


def test_json_says_what_stands_for_the_seeds_and_what_papers_print(tmp_path):
    for seed, score in ((1, 0.1), (2, 0.2), (3, 0.9)):
        build_run(tmp_path / str(seed), seed=seed, metrics={"dev/em": score})
    content = json.loads(report_json(build_report([tmp_path])))
    summary = content["configurations"][0]["metrics"]["dev/em"]
    assert (content["statistic"], summary["median"], summary["mean"]) == ("median", 0.2, pytest.approx(0.4))
    assert content["comparisons"][0]["title"] == "hybridqa · cell selection"
    assert content["published"][0]["metrics"]["dev/em"] == pytest.approx(0.634)
    assert json.loads(report_json(build_report([tmp_path], published=False)))["published"] == []
