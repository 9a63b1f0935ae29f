"""The comparison as a W&B run: what it holds, and that the files of the offline run are there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mate_cli.cli.app import main
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.export.dashboard import labels, send_report, sheets, view_sheet
from mate_cli.reports.sections.results import result_view
from tests.reports.answered import answer_questions
from tests.reports.runs import build_run

OPTIONS = {"project": "mate", "entity": None, "group": None, "tags": ["mine"], "timeout": 5.0, "mode": "offline"}


@pytest.fixture
def outputs(tmp_path):
    for model, chances in (("mate", 0.8), ("tapas", 0.5)):
        for seed in (1, 2):
            run = build_run(tmp_path / "outputs" / f"{model}{seed}", model=model, seed=seed, steps=8)
            answer_questions(run, chances, seed=seed)
    return tmp_path / "outputs"


def test_the_offline_run_holds_tables_and_the_page(outputs):
    report = build_report([outputs], metric="dev/hits@1", against="mate")
    place = send_report(report, OPTIONS, outputs)
    assert place.parent == outputs / "wandb"
    assert list(place.glob("run-*.wandb"))
    media = place / "files" / "media"
    assert {path.parent.name for path in media.glob("table/*/*.json")} == {
        *("results", "significance", "questions", "cost")
    }
    (page,) = media.glob("html/page/*.html")
    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.long
def test_the_run_can_be_read_back(outputs):
    """By W&B's own reader of the file, so that nothing here knows its format."""
    place = send_report(build_report([outputs], metric="dev/hits@1"), OPTIONS, outputs)
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--summary", str(place)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if told.returncode or not told.stdout:
        pytest.skip(f"this W&B has no leet inspect: {told.stderr.strip()[-200:]}")
    assert "2 configurations on hybridqa" in told.stdout


def test_the_comparison_is_found_by_group_job_type_and_tags(outputs):
    found = labels(build_report([outputs], metric="dev/hits@1"), OPTIONS)
    assert (found["group"], found["job_type"]) == ("comparison", "comparison")
    assert found["name"] == "2 configurations on hybridqa"
    assert found["tags"] == ["hybridqa"]
    assert found["config"]["configurations"] == ["mate", "tapas"]
    assert labels(build_report([outputs]), {**OPTIONS, "group": "mine"})["group"] == "mine"


def test_results_are_in_percent_with_the_spread_apart(outputs):
    report = build_report([outputs], metric="dev/hits@1")
    sheet = view_sheet(result_view(report.tables[0]), "results")
    first = dict(zip(sheet.columns, sheet.rows[0], strict=True))
    summary = report.groups[0].summary("dev/hits@1")
    assert (first["configuration"], first["kind"], first["n"]) == ("mate", "ours", 2)
    assert first["Dev Hits@1"] == pytest.approx(100 * summary.center, abs=0.005)
    assert first["± Dev Hits@1"] == pytest.approx(100 * summary.spread, abs=0.005)
    assert "published" in {row[1] for row in sheet.rows}


def test_runs_without_a_result_are_tables_too(tmp_path):
    build_run(tmp_path / "run", status="failed", overrides=None)
    found = list(sheets(build_report([tmp_path])))
    assert [sheet.name for sheet in found] == ["cost/Cost"]


def test_without_its_logger_it_is_refused(outputs, monkeypatch, capsys):
    monkeypatch.chdir(outputs.parent)
    assert main(["compare", "outputs", "wandb=true", "logger=none", "html=null"]) == 2
    assert "logger: wandb=true needs the W&B logger" in capsys.readouterr().err


def test_the_command_says_where_it_went(outputs, monkeypatch, capsys):
    monkeypatch.chdir(outputs.parent)
    assert main(["compare", "outputs", "wandb=true", "html=null"]) == 0
    assert "wandb: outputs/wandb/offline-run-" in capsys.readouterr().out.replace(f"{outputs.parent}/", "")
