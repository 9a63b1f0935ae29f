from __future__ import annotations

import csv
from importlib import resources
from pathlib import Path

import pytest
from runs import build_run

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.compare.tables import paper_cell, published_results
from mate_cli.reports.sections.cost_and_sweep import speed_section

DATASETS = sorted(
    file.name.removesuffix(".yaml") for file in resources.files("mate_cli.reports").joinpath("published").iterdir()
)


def of_runs():
    """The best run in percent, and the examples per second, of every row that has them."""
    rows = [(name, row) for name in DATASETS for row in published_results(name)]
    best = {
        (name, row.label, f"best/{metric}"): round(MetricName.parse(metric).spec.scale * value, 6)
        for name, row in rows
        for metric, value in row.best.items()
    }
    return best | {
        (name, row.label, "examples_per_second"): row.examples_per_second
        for name, row in rows
        if row.examples_per_second
    }


def test_the_order_of_the_mate_paper():
    rows = {row.label: row for row in published_results("hybridqa")}
    ranked = (row for row in rows.values() if "dev/hits@5" in row.metrics and row.label.startswith("PointR"))
    by_hits = sorted(ranked, key=lambda row: -row.metrics["dev/hits@5"])
    assert [row.model for row in by_hits] == ["mate", "tapas", "sat", "linformer", "etc"]
    assert rows["PointR + MATE"].metrics["dev/em"] == pytest.approx(0.634)
    assert rows["Hybrider (large)"].metrics["dev/f1/table"] == pytest.approx(0.614)


def test_each_source_of_a_row_is_named():
    (row,) = (row for row in published_results("sqa") if row.label == "TAPAS large, intermediate")
    assert row.source == "Eisenschlos et al. (2020); google-research/tapas, README"
    assert row.metrics["dev/denotation_accuracy/gold_previous"] == pytest.approx(0.7289)


def test_every_figure_is_that_of_its_paper():
    with Path(__file__).with_name("paper_figures.csv").open(encoding="utf-8", newline="") as file:
        kept = {(row["dataset"], row["label"], row["metric"]): row for row in csv.DictReader(file)}
    found = {
        (name, row.label, metric): row for name in DATASETS for row in published_results(name) for metric in row.metrics
    }
    assert set(found) | set(of_runs()) == set(kept)
    for key, value in of_runs().items():
        assert value == float(kept[key]["value"]), key
    for (name, label, metric), row in found.items():
        figure, scale = kept[name, label, metric], MetricName.parse(metric).spec.scale
        assert round(scale * row.metrics[metric], 6) == float(figure["value"]), (label, metric)
        error = row.errors.get(metric)
        assert figure["error"] == ("" if error is None else f"{scale * error:g}"), (label, metric)
        assert any(part in figure["table"] for part in row.source.split("; ")), (label, metric)


def test_errors_are_of_figures_that_are_there_and_behind_them_in_tables():
    rows = [row for name in DATASETS for row in published_results(name)]
    assert all(set(row.errors) <= set(row.metrics) for row in rows)
    (row,) = (row for row in published_results("wtq") if row.label == "DoT (s -> l), columns")
    cell = paper_cell(row, "test/official_accuracy")
    assert (cell.center, cell.spread) == pytest.approx((0.481, 0.024))
    assert paper_cell(published_results("hybridqa")[0], "test/em").spread is None


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_figure_is_a_fraction_under_a_name_that_runs_use(dataset):
    rows = published_results(dataset)
    assert len({row.label for row in rows}) == len(rows) > 0
    for row in rows:
        assert row.source
        for name, value in row.metrics.items():
            metric = MetricName.parse(name)
            assert (metric.split in ("dev", "test"), metric.spec.is_share) == (True, True), name
            assert not metric.part or metric.kind, name
            assert 0 < value < 1
        assert all(row.metrics[name] <= row.metrics[name.replace("em", "f1")] for name in row.metrics if "/em" in name)


@pytest.mark.parametrize("dataset", ["", "sample", "../hybridqa", "a, b"])
def test_other_datasets_have_none(dataset):
    assert published_results(dataset) == ()


@pytest.mark.parametrize(("dataset", "other"), [("spider", "mean"), ("hybridqa", "median")])
def test_rows_that_are_summed_up_in_another_way_than_runs_are_said_so(dataset, other, tmp_path):
    metric, task = ("exact_set_match", "sql_parsing") if dataset == "spider" else ("em", "cell_selection")
    for seed in (1, 2):
        scores = {f"dev/{metric}": 0.5 + seed / 100}
        build_run(tmp_path / f"s{seed}", model="mate", task=task, seed=seed, metrics=scores, dataset=dataset)
    notes = {word: "\n".join(build_report([tmp_path], statistic=word).notes) for word in ("mean", "median")}
    assert f"for yours alike: statistic={other}" in notes["median" if other == "mean" else "mean"]
    assert "for yours alike" not in notes[other]


def test_runs_stand_above_published_speeds(tmp_path):
    for seed, score in ((1, 0.51), (2, 0.55), (3, 0.53)):
        metrics = {"test/official_accuracy": score}
        build_run(tmp_path / f"s{seed}", model="dot", task="table_qa", seed=seed, metrics=metrics, dataset="wtq")
    section = speed_section(build_report([tmp_path]), wide=False)
    (view,) = section.views
    assert view.title == "wtq, test"
    ours, *papers = [[cell.text + cell.spread for cell in row.cells] for row in view.rows]
    assert ours[:2] == ["53.01.0", "55.0"]
    assert float(ours[2]) > 0
    named = dict(zip([row.label for row in view.rows[1:]], papers, strict=True))
    assert named["DoT (m -> l), columns"] == ["50.10.5", "50.1", "950"]
    assert speed_section(build_report([tmp_path], published=False), wide=False) is None
