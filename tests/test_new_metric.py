"""A metric that is added as one file is known wherever metrics are shown, ranked or chosen by."""

from __future__ import annotations

import io
import math
import sys

import pytest
from rich.console import Console

import mate_cli.metrics
from mate_cli.metrics.specs import MetricName, metric_specs, result_of, subset_specs
from mate_cli.pipelines.export.model_card import ExportedModel, front_matter, model_card
from mate_cli.pipelines.run import results_table
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.compare.tables import unit_of
from mate_cli.reports.export.data_files import report_markdown
from mate_cli.reports.export.latex import report_latex
from mate_cli.reports.page import render_page
from mate_cli.reports.sections.curves import curve_data, read_logs
from mate_cli.reports.sections.results import references
from mate_cli.reports.terminal import print_report
from mate_cli.runs.callbacks import Checkpoints
from mate_cli.runs.record import RunFolder, RunRecord
from tests.reports.runs import build_run

SOURCE = """
from mate_cli.metrics.specs import MetricSpec, MetricTable, SubsetSpec

SURPRISE = MetricSpec(
    "surprise", "Surprise", -1, ".2f", order=15, importance=9, table=MetricTable("Doubt"), hub_name="brier_score"
)
SHORT = SubsetSpec("short", "Short ones", "by patience", order=40)
"""
METRICS = {"mate": {"dev/surprise": 0.125, "dev/em": 0.5}, "tapas": {"dev/surprise": 0.5, "dev/em": 0.25}}


@pytest.fixture(autouse=True)
def added(tmp_path, monkeypatch):
    folder = tmp_path / "more_metrics"
    folder.mkdir()
    (folder / "surprise.py").write_text(SOURCE)
    monkeypatch.setattr(mate_cli.metrics, "__path__", [*mate_cli.metrics.__path__, str(folder)])
    yield
    del sys.modules["mate_cli.metrics.surprise"], mate_cli.metrics.surprise


@pytest.fixture
def report(tmp_path):
    for model, metrics in METRICS.items():
        parts = {"dev/surprise/short": metrics["dev/surprise"] / 2}
        build_run(tmp_path / "runs" / model, model=model, metrics=metrics | parts, steps=8)
    return build_report([tmp_path / "runs"])


def test_training_prints_it_in_its_place():
    table = results_table({"dev/surprise/short": 0.25, "dev/gold_f1": 0.5, "dev/surprise": 1.5, "dev/em": 0.5}, "")
    assert [column.header for column in table.columns] == ["split", "questions", "EM", "Surprise", "Gold F1"]
    assert list(table.columns[3]._cells) == ["1.50", "0.25"]
    assert list(table.columns[1]._cells) == ["Total", "Short ones"]


def test_compare_ranks_by_it_and_marks_the_least(report):
    assert report.metric == "dev/surprise"
    assert [group.label for group in report.groups] == ["mate", "tapas"]
    answers, doubt = report.tables
    assert (answers.title, doubt.title) == ("Question answering on hybridqa · dev", "Doubt on hybridqa")
    assert [column.full for column in doubt.columns] == ["dev/surprise/short", "dev/surprise"][::-1]
    assert [doubt.mark(0, row.cells[0]) for row in doubt.rows] == ["best", ""]
    assert (unit_of(answers.columns), unit_of(doubt.columns)) == ("in percent", "")


def test_every_way_to_write_a_comparison_shows_it(report, tmp_path):
    text = io.StringIO()
    print_report(report, Console(file=text, width=100))
    assert "Ranked by Dev Surprise." in text.getvalue()
    assert "*0.12" in text.getvalue()
    latex = report_latex(report)
    assert r"\caption{Doubt on hybridqa" in latex
    assert r"Model & Surprise & Surprise & $n$ \\" in latex
    assert r"\textbf{0.12}" in latex
    assert "Short ones" in latex
    assert "**0.12**" in report_markdown(report)
    page = render_page(report, tmp_path)
    assert "Best Dev Surprise" in page
    assert "Dev Surprise by patience" in page
    assert '<th class="number" scope="col" data-better="less">Surprise</th>' in page


def test_curves_and_published_figures_know_its_direction(report, tmp_path, monkeypatch):
    for model in METRICS:
        rows = "".join(f'{{"step": {step}, "dev/surprise": {1 / step}}}\n' for step in (1, 2, 3))
        (tmp_path / "runs" / model / "metrics.jsonl").write_text(rows)
    (metric,) = curve_data(report, read_logs(report, most=12))["metrics"]
    assert (metric["title"], metric["direction"], metric["percent"]) == ("Dev Surprise", -1, False)
    published = [
        type("Row", (), {"label": str(v), "model": "x", "metrics": {"m/surprise": v}, "source": ""})() for v in (3, 1)
    ]
    monkeypatch.setattr("mate_cli.reports.sections.results.published_results", lambda dataset: published)
    assert [one.label for one in references(report, MetricName.parse("m/surprise"), "hybridqa")] == ["1"]


def test_a_model_card_names_it_as_the_hub_does():
    names = {"experiment": "e", "dataset": "sample", "model": "mate", "attention": "auto", "init": "random"}
    record = RunRecord("train", overrides=[], task="cell_selection", seed=1, **names)
    record.metrics = {"dev/surprise": 1.5, "dev/em": 0.5, "baseline/tfidf/dev/f1": 0.25}
    settings = {"encoding": {"max_tokens": 64, "_target_": "x"}, "init": {}}
    settings |= {"task": {}, "model": {"size": "tiny", "activation": "gelu"}}
    model = ExportedModel(record, settings, {"kind": "random"}, "Mate", None)
    assert front_matter(model)["metrics"] == ["exact_match", "brier_score"]
    assert "| Surprise (`surprise`) | 1.50 | - |" in model_card(model, "folder")


def test_weights_and_searches_go_by_it(tmp_path):
    checkpoints = Checkpoints(RunFolder(tmp_path), "dev/surprise", every_steps=1)
    assert checkpoints.spec.is_better(0.25, 0.5)
    assert not checkpoints.spec.is_better(math.nan, 0.5)
    result = result_of("dev/surprise", {"dev/surprise": 0.25, "dev/f1": 0.5})
    assert (str(result), result.value) == ("dev/surprise 0.25", 0.25)
    assert result_of("", {"dev/f1": 0.5}) is None


def test_it_is_gone_with_its_file():
    assert MetricName.parse("dev/surprise").spec.title == "Surprise"
    mate_cli.metrics.__path__ = mate_cli.metrics.__path__[:-1]
    assert "surprise" not in metric_specs()
    assert "short" not in subset_specs()
    assert MetricName.parse("dev/surprise").spec.title == "surprise"
