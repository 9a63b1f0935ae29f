"""Report section of learning curves, which page scripts or matplotlib draw."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from mate_cli.files.safe_load import read_lines
from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.configuration import Configuration
from mate_cli.reports.compare.report import Report, preference
from mate_cli.reports.compare.statistics import is_finite
from mate_cli.reports.plots.style import INK, add_legend, color_of, dash_of, literal_text, mark_of, new_figure
from mate_cli.reports.runs.load import LoadedRun, clean, is_number
from mate_cli.reports.sections.results import blocks_of, group_data, metric_data, round_value
from mate_cli.reports.view import ReportSection, sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_CURVES, MAX_FIGURES, MAX_REPEATS = 24, 8, 5
STILL_CURVES = 8
"""Number of configurations drawn without scripts, and shown initially with scripts."""
NOTES = (
    f"at most {MAX_FIGURES} metrics and {MAX_REPEATS} runs of a configuration",
    "numbers appear under the pointer, or with the arrow keys on a chart",
)


def curves_section(report: Report, *, wide: bool) -> ReportSection:
    """Return learning curves of the logged metrics.

    Page scripts draw the curves. If scripts are disabled, the page shows one static figure.

    Args:
        report: comparison of runs.
        wide: not used.
    """
    total, is_score = len(report.groups), attrgetter("is_score")
    hint = f"best {MAX_CURVES} of {total} configurations" if total > MAX_CURVES else ""

    def content() -> Mapping[str, Any] | None:
        plots = read_logs(report, most=MAX_CURVES)
        metrics = list_logged_metrics(plots)
        if not metrics:
            return None
        data = curve_data(report, plots)
        return {
            "data": data,
            "blocks": list(enumerate(data["blocks"])),
            "published": any(any(metric["lines"]) for metric in data["metrics"]),
            "first": STILL_CURVES,
            "note": sentences(NOTES),
            # Without scripts, the most important score is drawn, or else the loss.
            "still": lambda: draw_curves(plots[:STILL_CURVES], next(filter(is_score, metrics), metrics[0])),
        }

    return ReportSection("curves", "Learning curves", "Curves", hint=hint, template="curves", content=content)


FINAL = ("final/", "baseline/")
"""Prefixes of metrics that are measured once, at the end of a run."""
CLOCK_POINTS = 48


Curve = Sequence[tuple[float, float]]
"""Logged values of one metric of a run: (optimizer step, value as fraction or loss)."""


@dataclass(frozen=True)
class RunLog:
    """Learning curves of a run, read from its metrics.jsonl.

    Args:
        curves: curve of each metric, by its name.
        epochs: number of epochs passed at some of the steps.
        seconds: number of seconds passed at some of the steps.
    """

    curves: dict[str, Curve]
    epochs: Curve
    seconds: Curve


def load_log(folder: Path, *, points: int = 240) -> RunLog:
    """Read the learning curves of a run, each reduced to at most `points` averaged points.

    Lines that are not JSON objects are skipped, such as the last line of an interrupted run. Final metrics are skipped,
    too, because they are single points.
    """
    points_by_metric: dict[str, list[tuple[float, float]]] = {}
    for row in logged_rows(folder / "metrics.jsonl"):
        for name, value in row.items():
            if name != "step" and is_number(value) and is_finite(value) and not name.startswith(FINAL):
                points_by_metric.setdefault(clean(name), []).append((float(row["step"]), float(value)))
    epochs, seconds = (thin_clock(points_by_metric.pop(name, [])) for name in ("epoch", "time"))
    return RunLog({name: thin(sorted(pairs), points) for name, pairs in points_by_metric.items()}, epochs, seconds)


def thin_clock(pairs: list[tuple[float, float]]) -> Curve:
    """Thin (step, time) pairs to evenly spaced pairs, with the first and the last pair.

    A decreasing value is replaced by the previous maximum.
    """
    steps, values = zip(*sorted(pairs), strict=True) if pairs else ((), ())
    rising = list(zip(steps, accumulate(values, max), strict=True))
    points = rising[:: math.ceil(len(rising) / CLOCK_POINTS) or 1]
    return points if points[-1:] == rising[-1:] else [*points, rising[-1]]


def logged_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a metrics.jsonl file that have a valid step.

    Nothing is yielded if the file is unreadable.
    """
    with suppress(OSError, ValueError):
        yield from (row for row in read_lines(file) if is_number(row.get("step")) and is_finite(row["step"]))


def thin(pairs: list[tuple[float, float]], points: int) -> Curve:
    """Average neighboring (step, value) pairs until at most `points` pairs are left."""
    width = math.ceil(len(pairs) / points)
    bins = (zip(*pairs[start : start + width], strict=True) for start in range(0, len(pairs), width))
    return [(fmean(steps), fmean(values)) for steps, values in bins]


MAX_POINTS, ALL_POINTS = 240, 12_000
"""Maximum number of points of one curve, and of all curves of a metric together."""


@dataclass(frozen=True)
class PlottedConfiguration:
    """A configuration whose learning curves are drawn.

    Args:
        index: index among all configurations of the report.
        group: the configuration.
        logs: runs of the configuration with their learning curves.
    """

    index: int
    group: Configuration
    logs: tuple[tuple[LoadedRun, RunLog], ...]


def read_logs(report: Report, *, most: int) -> list[PlottedConfiguration]:
    """Read the learning curves of the best configurations that have logged metrics.

    The number of points per curve decreases with the number of runs, to keep pages small.

    Args:
        report: comparison of runs.
        most: maximum number of configurations.
    """
    count = sum(len(group.runs[:MAX_REPEATS]) for group in report.groups[:most])
    points = max(60, min(MAX_POINTS, ALL_POINTS // max(1, count)))
    plots: list[PlottedConfiguration] = []
    for index, group in enumerate(report.groups):
        if len(plots) == most:
            break
        logs = tuple((run, load_log(run.folder, points=points)) for run in group.runs[:MAX_REPEATS])
        # Chains log no curves, only their stages do.
        if any(any(list_moving(log)) for _, log in logs):
            plots.append(PlottedConfiguration(index, group, logs))
    return plots


def list_logged_metrics(drawn: Sequence[PlottedConfiguration]) -> list[MetricName]:
    """Return the metrics to draw learning curves of, most important first."""
    per_plot = ({run.parse(name) for run, log in plot.logs for name in list_moving(log)} for plot in drawn)
    counts = Counter(metric for metrics in per_plot for metric in metrics if metric.score != "lr")
    return sorted(counts, key=lambda metric: curve_order(metric, counts[metric]))[:MAX_FIGURES]


def list_moving(log: RunLog) -> Iterator[str]:
    """Yield the metrics that a run logged at several steps, which have a curve."""
    yield from (name for name, curve in log.curves.items() if len(curve) > 1)


def curve_order(metric: MetricName, count: int) -> tuple[object, ...]:
    """Return a sort key for learning curves: training loss first, then scores by importance.

    Training loss comes first, then scores of all questions by how many configurations logged them, other losses, and
    the rest.

    Args:
        metric: logged metric.
        count: number of configurations that logged the metric.
    """
    category = (metric.full != "train/loss", not metric.is_score, bool(metric.part), metric.score != "loss")
    return (*category, -count, *preference(metric))


FEW_POINTS = 15


def draw_curves(drawn: Sequence[PlottedConfiguration], metric: MetricName) -> Figure:
    """Draw the learning curves of one metric for all runs that logged the metric.

    The SVG id of each line is `<metric>-g<configuration>-<run>`.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = new_figure(6.2, 3.1)
    for index, plot in enumerate(drawn):
        curves = [log.curves[metric.full] for _, log in plot.logs if metric.full in log.curves]
        for repeat, curve in enumerate(curves):
            steps, values = zip(*curve, strict=True)
            (line,) = axes.plot(steps, [metric.spec.scale * value for value in values], linewidth=1.5)
            line.set(color=color_of(index), linestyle=dash_of(index), alpha=1.0 if len(curves) == 1 else 0.75)
            line.set_gid(f"{metric.full}-g{index}-{repeat}")
            line.set_label(literal_text(plot.group.label) if repeat == 0 else "_")
            line.set(marker=mark_of(index), markersize=3.5, markevery=max(1, len(curve) // FEW_POINTS))
    axes.set_xlabel("step", color=INK)
    axes.set_title(literal_text(metric.title_with_unit), loc="left", fontsize=9.5, fontweight="bold", color=INK)
    axes.margins(x=0.01)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
    add_legend(figure, [plot.group.label for plot in drawn])
    return figure


def curve_data(report: Report, drawn: Sequence[PlottedConfiguration]) -> dict[str, Any]:
    """Convert the learning curves of all configurations to JSON for page scripts.

    Returns:
        `metrics` in display order, `blocks`, and `groups` with their runs. A run has `grids` (lists of steps, shared by
        metrics), `values` (grid index and values by metric index), and `epochs` and `seconds` as (steps, values).
    """
    metrics = list_logged_metrics(drawn)
    return {
        "metrics": [metric_data(report, metric) for metric in metrics],
        "blocks": list(blocks_of(report)),
        "groups": [
            group_data(report, curve.index) | {"runs": [run_data(run, log, metrics) for run, log in curve.logs]}
            for curve in drawn
        ],
    }


def run_data(run: LoadedRun, log: RunLog, metrics: Sequence[MetricName]) -> dict[str, Any]:
    """Convert the learning curves of one run to JSON-serializable data for page scripts.

    Args:
        run: run of the log.
        log: curves of the run.
        metrics: metrics in display order.
    """
    grids: list[list[float]] = []
    values: dict[str, list[Any]] = {}
    for number, metric in enumerate(metrics):
        if metric.full in log.curves:
            steps, scores = zip(*log.curves[metric.full], strict=True)
            grid = round_numbers(steps, 1)
            if grid not in grids:
                grids.append(grid)
            values[str(number)] = [grids.index(grid), [round_value(score, metric) for score in scores]]
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
    """Split (step, time) pairs into a list of steps and a list of times, both rounded.

    Times are epochs or seconds.

    Args:
        curve: (step, time) pairs.
        digits: number of decimals of the times.
    """
    return [round_numbers((pair[axis] for pair in curve), precision) for axis, precision in ((0, 1), (1, digits))]


def round_numbers(numbers: Iterable[float], digits: int) -> list[float]:
    """Round numbers to `digits` decimals, and convert integral numbers to `int`."""
    return [int(number) if float(number).is_integer() else round(number, digits) for number in numbers]
