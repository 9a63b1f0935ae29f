from __future__ import annotations

from importlib import resources

import pytest

from mate_cli.metrics.names import MetricName
from mate_cli.reports.published import published_for

DATASETS = sorted(
    file.name.removesuffix(".yaml") for file in resources.files("mate_cli.reports").joinpath("published").iterdir()
)


def test_the_order_of_the_mate_paper():
    rows = {row.label: row for row in published_for("hybridqa")}
    by_hits = sorted(
        (row for row in rows.values() if "dev/hits@5" in row.metrics), key=lambda r: -r.metrics["dev/hits@5"]
    )
    assert [row.model for row in by_hits] == ["mate", "tapas", "sat", "linformer", "etc"]
    assert rows["PointR + MATE"].metrics["dev/em"] == pytest.approx(0.634)
    assert rows["Hybrider (large)"].metrics["dev/f1/table"] == pytest.approx(0.614)


def test_each_source_of_a_row_is_named():
    row = published_for("hybridqa")[0]
    assert row.source == "Eisenschlos et al. (2021), tables 5 and 6; HybridQA repository, list of results"
    assert row.metrics["test/f1"] == pytest.approx(0.702)


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_figure_is_a_fraction_under_a_name_that_runs_use(dataset):
    rows = published_for(dataset)
    assert len({row.label for row in rows}) == len(rows) > 0
    for row in rows:
        assert row.source
        for name, value in row.metrics.items():
            metric = MetricName.parse(name)
            assert (metric.split in ("dev", "test"), metric.is_share) == (True, True), name
            assert not metric.part or metric.kind, name
            assert 0 < value < 1
        assert all(row.metrics[name] <= row.metrics[name.replace("em", "f1")] for name in row.metrics if "/em" in name)


def test_table_4_of_the_mate_paper():
    names = {"sqa": "test/denotation_accuracy", "wtq": "test/denotation_accuracy", "tabfact": "test/accuracy"}
    figures = {dataset: {row.label: row.metrics for row in published_for(dataset)} for dataset in names}
    found = {dataset: figures[dataset]["MATE"][name] for dataset, name in names.items()}
    assert found == pytest.approx({"sqa": 0.717, "wtq": 0.515, "tabfact": 0.814})
    assert figures["tabfact"]["TAPAS large, intermediate"]["test/accuracy/complex"] == pytest.approx(0.756)


@pytest.mark.parametrize("dataset", ["", "sample", "../hybridqa", "a, b"])
def test_other_datasets_have_none(dataset):
    assert published_for(dataset) == ()
