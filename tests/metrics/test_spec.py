"""What metrics say of themselves."""

from __future__ import annotations

import math
import sys

import pytest
import yaml
from hydra.utils import get_class

import mate_cli.metrics
from mate_cli.cli.config_dir import config_dir
from mate_cli.metrics.accuracy import PERPLEXITY, masked_scores
from mate_cli.metrics.exact_match import EM
from mate_cli.metrics.specs import MetricName, MetricSpec, metric_specs, read_specs, spec_of, subset_rank, subset_specs

TASKS = sorted((config_dir() / "task").glob("*.yaml"))


@pytest.mark.parametrize("file", TASKS, ids=lambda path: path.stem)
def test_what_a_task_monitors_has_a_direction_and_sums_a_run_up(file):
    name = MetricName.parse(get_class(yaml.safe_load(file.read_text())["_target_"]).spec.monitor)
    assert name.split == "dev"
    assert metric_specs()[name.score].direction
    assert name.is_score


def test_columns_and_subsets_have_places_of_their_own():
    for specs in (metric_specs(), subset_specs()):
        orders = [spec.order for spec in specs.values()]
        assert orders == sorted(set(orders))
    assert 0 not in [spec.order for spec in subset_specs().values()]  # that is the place of all questions
    assert subset_rank("table") < subset_rank("passage") < subset_rank("") < subset_rank("unheard of")


def test_values_are_written_with_their_unit():
    assert [EM.text(0.4583), EM.spread_text(0.0123), PERPLEXITY.text(12.345)] == ["45.8", "1.2", "12.3"]
    assert [EM.difference_text(x) for x in (0.0, -0.0004, 0.012, -0.1)] == ["0.0", "0.0", "+1.2", "-10.0"]
    assert [PERPLEXITY.difference_text(x) for x in (-0.01, 1.5, -20.25)] == ["0.0", "+1.5", "-20.2"]
    assert [spec_of("tokens_per_second").difference_text(x) for x in (1234.5, -0.2)] == ["+1,234", "0"]


@pytest.mark.parametrize("value", [math.nan, 3.0])
def test_neither_what_is_no_number_nor_what_is_equal_is_better(value):
    assert not EM.is_better(value, 3.0)
    assert not PERPLEXITY.is_better(value, 3.0)
    assert EM.is_better(value, None) == PERPLEXITY.is_better(value, None) == (value == 3.0)


@pytest.mark.parametrize("name", ["row_recall", "span_loss", "beauty"])
def test_a_metric_that_nobody_declared_has_no_direction(name):
    spec = spec_of(name)
    assert (spec.title, spec.direction, spec.is_share) == (name.replace("_", " "), 0, False)
    assert spec.order > max(known.order for known in metric_specs().values())


def test_a_record_declares_the_metrics_of_users():
    spec = MetricSpec("refusals", "Refused", -1, importance=2)
    name = MetricName.parse("dev/refusals", read_specs({"refusals": spec.to_json()}))
    assert (name.spec, name.is_score) == (spec, True)


@pytest.mark.parametrize("change", [{"format": ".999999999f"}, {"title": "\x1b[2J"}, {"direction": 7}, {"title": None}])
def test_an_invalid_declaration_in_a_record_is_skipped(change):
    assert read_specs({"a": {**EM.to_json(), **change}, "b": "text", "c": EM.to_json()}).keys() == {"c"}


def test_a_name_is_declared_once(tmp_path, monkeypatch):
    source = 'from mate_cli.metrics.specs import MetricSpec\nX = MetricSpec("em", "Another", -1)\n'
    (tmp_path / "another.py").write_text(source)
    monkeypatch.setattr(mate_cli.metrics, "__path__", [*mate_cli.metrics.__path__, str(tmp_path)])
    with pytest.raises(ValueError, match="em is declared twice"):
        metric_specs()
    del sys.modules["mate_cli.metrics.another"], mate_cli.metrics.another


def test_masked_pieces_are_scored():
    assert masked_scores(4, 1, 4 * math.log(3)) == pytest.approx({"masked_accuracy": 0.25, "perplexity": 3.0})
    assert masked_scores(0, 0, 0.0) == {}
    assert math.isfinite(masked_scores(1, 0, 1e9)["perplexity"])
