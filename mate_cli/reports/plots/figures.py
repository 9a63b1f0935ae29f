"""Chooses what is drawn: the best configurations, their curves, the main metric."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.errors import RunError
from mate_cli.metrics.pruning import SCORE_MARGIN
from mate_cli.metrics.specs import SPLITS, MetricName
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.questions import scored_runs
from mate_cli.reports.compare.report import Report, preference
from mate_cli.reports.compare.statistics import is_finite
from mate_cli.reports.plots.metric_bars import Bar, metric_bars
from mate_cli.reports.plots.score_margins import MarginFrame, Margins, score_margins
from mate_cli.reports.plots.style import (
    INK,
    add_legend,
    color_of,
    dash_of,
    literal_text,
    mark_of,
    new_figure,
    save_figure,
)
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.reports.runs.load_curves import Curve, RunLog, load_log

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_CURVES, MAX_BARS, MAX_FIGURES, MAX_REPEATS, MAX_MARGINS = 12, 30, 8, 5, 8
MAX_POINTS, ALL_POINTS = 240, 12_000
"""Points of a curve, and of all curves of a metric together."""


@dataclass(frozen=True)
class PlottedConfiguration:
    """A configuration whose curves are drawn: its place among all, and its runs with what they logged."""

    index: int
    group: Configuration
    logs: tuple[tuple[LoadedRun, RunLog], ...]


def read_logs(report: Report, *, most: int = MAX_CURVES) -> list[PlottedConfiguration]:
    """Read what the best configurations with curves logged; the more runs, the fewer points: pages stay light."""
    count = sum(len(group.runs[:MAX_REPEATS]) for group in report.groups[:most])
    points = max(60, min(MAX_POINTS, ALL_POINTS // max(1, count)))
    drawn: list[PlottedConfiguration] = []
    for index, group in enumerate(report.groups):
        if len(drawn) == most:
            break
        logs = tuple((run, load_log(run.folder, points=points)) for run in group.runs[:MAX_REPEATS])
        if any(any(list_moving(log)) for _, log in logs):  # chains have none of their own
            drawn.append(PlottedConfiguration(index, group, logs))
    return drawn


def curve_names(drawn: Sequence[PlottedConfiguration]) -> list[str]:
    """List the logged metrics that are drawn, the most telling first."""
    counts = Counter(name for plot in drawn for name in {name for _, log in plot.logs for name in list_moving(log)})
    names = [name for name in counts if MetricName.parse(name).score != "lr"]
    return sorted(names, key=lambda name: curve_order(name, counts[name]))[:MAX_FIGURES]


def list_moving(log: RunLog) -> Iterator[str]:
    """Yield the metrics that were logged more than once: a single point is no curve."""
    yield from (name for name, curve in log.curves.items() if len(curve.steps) > 1)


def curve_order(name: str, count: int) -> tuple[object, ...]:
    """Order logged metrics: training loss, scores of all questions that most have, other losses, the rest."""
    metric = MetricName.parse(name)
    kind = (name != "train/loss", not metric.is_score, bool(metric.part), metric.score != "loss")
    return (*kind, -count, *preference(name))


def draw_curves(drawn: Sequence[PlottedConfiguration], name: str) -> Figure:
    """Draw the curves of one metric, those without a point left out."""
    lines = {
        plot.group.label: [log.curves[name] for _, log in plot.logs if name in log.curves and log.curves[name].steps]
        for plot in drawn
    }
    return learning_curves(MetricName.parse(name), lines)


def score_bars(report: Report, metric: str) -> list[Bar]:
    """Return the bars of a metric in the order of the report, in the colours of the curves."""
    drawn = []
    for place, group in enumerate(report.groups[:MAX_BARS]):
        if (summary := group.summary(metric)) is not None:
            values = (run.metrics.get(metric, math.nan) for run in group.counted)
            drawn.append(Bar(group.label, place, group.block, summary, tuple(filter(is_finite, values))))
    return drawn


def margin_frames(report: Report) -> list[MarginFrame]:
    """Read the score margins of the best configurations that have any: a frame per block, of test where known."""
    frames = []
    for block in dict.fromkeys(group.block for group in report.groups):
        for split in reversed(SPLITS):
            if configurations := tuple(margins(report, block, split)):
                frames.append(MarginFrame(block, split, configurations[:MAX_MARGINS]))
                break
    return frames


def margins(report: Report, block: str, split: str) -> Iterator[Margins]:
    """Yield what each configuration of a block recorded of single questions, all its runs together."""
    for index, group in enumerate(report.groups):
        if group.block == block:
            seeds = scored_runs(group, f"{split}/{SCORE_MARGIN.name}").values()
            values = tuple(value for seed in seeds for _, value in seed.values())
            if values:
                yield Margins(group.label, index, values)


def write_figures(report: Report, folder: Path) -> list[Path]:
    """Write every figure of a comparison as PNG, SVG and PDF, and return the files.

    Raises:
        RunError: the folder cannot be written.
    """
    logs = read_logs(report)
    drawn = [(f"curves_{file_name(name)}", draw_curves(logs, name)) for name in curve_names(logs)]
    if report.metric and (bars := score_bars(report, report.metric)):
        drawn.insert(0, (f"bars_{file_name(report.metric)}", metric_bars(MetricName.parse(report.metric), bars)))
    drawn += [(f"score_margins_{file_name(frame.dataset)}", score_margins(frame)) for frame in margin_frames(report)]
    try:
        return [file for name, figure in drawn for file in save_figure(figure, folder, name)]
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {error.strerror}", remedy="Choose another folder") from error


def file_name(metric: str) -> str:
    """Turn a metric's name into a file name: `test/hits@1` becomes `test_hits_at_1`."""
    spelled = metric.replace("@", "_at_")
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in spelled)[:80]


FEW_POINTS = 15


def learning_curves(metric: MetricName, lines: Mapping[str, Sequence[Curve]]) -> Figure:
    """Draw the curves; each line's id is `g<configuration>-...`, for a page to find it.

    Args:
        metric: that was logged.
        lines: a curve per run, by the label of their configuration.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = new_figure(6.2, 3.1)
    scale = metric.scale
    for index, (label, curves) in enumerate(lines.items()):
        for repeat, curve in enumerate(curves):
            (line,) = axes.plot(curve.steps, [scale * value for value in curve.values], linewidth=1.5)
            line.set(color=color_of(index), linestyle=dash_of(index), alpha=1.0 if len(curves) == 1 else 0.75)
            line.set_gid(f"{metric.full}-g{index}-{repeat}")
            line.set_label(literal_text(label) if repeat == 0 else "_")
            line.set(marker=mark_of(index), markersize=3.5, markevery=max(1, len(curve.steps) // FEW_POINTS))
    axes.set_xlabel("step", color=INK)
    axes.set_title(literal_text(metric.title_with_unit), loc="left", fontsize=9.5, fontweight="bold", color=INK)
    axes.margins(x=0.01)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
    add_legend(figure, list(lines))
    return figure
