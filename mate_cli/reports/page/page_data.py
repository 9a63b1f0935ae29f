"""Data for the page's scripts, as plain values that become compact JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.published import published_results
from mate_cli.reports.compare.report import Report, preference
from mate_cli.reports.plots.figures import PlottedConfiguration, curve_names
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.reports.runs.load_curves import Curve, RunLog

MAX_LINES, MAX_SCORES = 3, 12


@dataclass(frozen=True)
class PublishedFigure:
    """A published figure, a fraction, as it is printed, and the place it was read in."""

    label: str
    value: float
    text: str
    source: str


def blocks_of(report: Report) -> dict[str, str]:
    """Return the data set of each block of configurations that were asked the same questions, most runs first."""
    return {group.block: group.dataset for group in report.groups}


def references(report: Report, metric: str, dataset: str) -> list[PublishedFigure]:
    """Return published figures for a metric on a data set: of the models compared, else the best."""
    rows = published_results(dataset) if report.published else ()
    spec = MetricName.parse(metric).spec
    ranked = sorted((o for o in rows if metric in o.metrics), key=lambda o: -(spec.direction or 1) * o.metrics[metric])
    models = {run.setting("model") for run in report.runs}
    best = {row.model: row for row in reversed(ranked) if row.model in models}  # of a model the best, not its ablations
    lines = [row for row in ranked if best.get(row.model) is row][:MAX_LINES] or ranked[:1]
    return [PublishedFigure(row.label, (value := row.metrics[metric]), spec.text(value), row.source) for row in lines]


def curve_data(report: Report, drawn: Sequence[PlottedConfiguration]) -> dict[str, Any]:
    """Return the learning curves: `metrics` in the order shown, and `groups` with their runs.

    A run has `grids` (steps that several metrics share), `values` (by number of the metric: its grid, its values), and
    `epochs` and `seconds` as steps and what had passed at them.
    """
    names = curve_names(drawn)
    return {
        "metrics": [metric_data(report, MetricName.parse(name)) for name in names],
        "blocks": list(blocks_of(report)),
        "groups": [
            {
                "label": curve.group.label,
                "index": curve.index,
                "block": list(blocks_of(report)).index(curve.group.block),
                "runs": [run_data(run, log, names) for run, log in curve.logs],
            }
            for curve in drawn
        ],
    }


def metric_data(report: Report, metric: MetricName) -> dict[str, Any]:
    """Return how a metric is named and printed, and its published figures: one list per block."""
    lines = [
        [[line.label, round_value(line.value, metric)] for line in references(report, metric.full, dataset)]
        for dataset in blocks_of(report).values()
    ]
    shown = {"title": metric.title, "percent": metric.is_share, "direction": metric.direction}
    return {"name": metric.full, **shown, "lines": lines}


def run_data(run: LoadedRun, log: RunLog, names: Sequence[str]) -> dict[str, Any]:
    """Return the curves of one run."""
    grids: list[list[float]] = []
    values: dict[str, list[Any]] = {}
    for number, name in enumerate(names):
        if (curve := log.curves.get(name)) is None or not curve.steps:
            continue
        grid = round_numbers(curve.steps, 1)
        if grid not in grids:
            grids.append(grid)
        metric = MetricName.parse(name)
        values[str(number)] = [grids.index(grid), [round_value(value, metric) for value in curve.values]]
    seed = run.text("seed")
    return {
        "name": f"seed {seed}" if seed else run.folder.name,
        "size": run.number("train", "data"),
        "epochs": curve_times(log.epochs, 3),
        "seconds": curve_times(log.seconds, 1),
        "grids": grids,
        "values": values,
    }


def curve_times(curve: Curve, digits: int) -> list[list[float]]:
    """Return steps and the time at them."""
    return [round_numbers(curve.steps, 1), round_numbers(curve.values, digits)]


def round_numbers(numbers: Sequence[float], digits: int) -> list[float]:
    """Round numbers; a whole one loses its point."""
    return [int(number) if float(number).is_integer() else round(number, digits) for number in numbers]


def round_value(value: float, metric: MetricName) -> float:
    """Round to what can be seen: a hundredth of a percent point, else four digits."""
    return round(value, 4) if metric.is_share else float(f"{value:.4g}")


def score_names(report: Report) -> list[str]:
    """List the metrics a reader can choose: the main one, then scores of all questions, the most telling first."""
    names = {name for group in report.groups for name in group.metric_names if MetricName.parse(name).is_score}
    ordered = sorted(names, key=lambda name: (bool(MetricName.parse(name).part), *preference(name)))
    main = [report.metric] if report.metric else []
    return (main + [name for name in ordered if name not in main])[:MAX_SCORES]
