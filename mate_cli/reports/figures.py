"""Chooses what is drawn: the best configurations, their curves, the main metric."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.errors import RunError
from mate_cli.reports.load_curves import Curve, load_curves
from mate_cli.reports.metric_names import MetricName, preference
from mate_cli.reports.plots.learning_curves import CurveFrame, learning_curves
from mate_cli.reports.plots.metric_bars import Bar, metric_bars
from mate_cli.reports.plots.style import color_of, save_figure
from mate_cli.reports.report import Report
from mate_cli.reports.statistics import is_finite

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_CURVES, MOST_BARS, MOST_FIGURES, MOST_REPEATS = 12, 30, 8, 5


def curve_frames(report: Report) -> list[CurveFrame]:
    """Reads the curves of the best configurations, a frame per logged metric, the most telling metrics first."""
    groups = report.groups[:MOST_CURVES]
    curves = [[load_curves(run.folder) for run in group.runs[:MOST_REPEATS]] for group in groups]
    names = {name for group in curves for run in group for name in run if MetricName.parse(name).score != "lr"}
    frames = []
    for name in sorted(names, key=curve_order)[:MOST_FIGURES]:
        lines = tuple(tuple(run[name] for run in group if name in run) for group in curves)
        frames.append(CurveFrame(MetricName.parse(name), tuple(group.label for group in groups), drawable(lines)))
    return frames


def drawable(lines: tuple[tuple[Curve, ...], ...]) -> tuple[tuple[Curve, ...], ...]:
    """Leaves curves without a point out."""
    return tuple(tuple(curve for curve in group if curve.steps) for group in lines)


def curve_order(name: str) -> tuple[object, ...]:
    """Orders logged metrics: the training loss, the scores as when ranking, other losses, the rest."""
    metric = MetricName.parse(name)
    return (name != "train/loss", not metric.is_fraction, metric.score != "loss", *preference(name))


def bars(report: Report) -> tuple[Bar, ...]:
    """Returns the bars of the main metric, best first, in the colours of the curves."""
    if report.metric is None:
        return ()
    drawn = []
    for index, group in enumerate(report.groups[:MOST_BARS]):
        if (summary := group.summary(report.metric)) is not None:
            values = (run.metrics.get(report.metric, math.nan) for run in group.counted)
            drawn.append(Bar(group.label, color_of(index), summary, tuple(filter(is_finite, values))))
    return tuple(drawn)


def draw_bars(report: Report) -> Figure | None:
    """Draws the main metric, None when no run has any."""
    drawn = bars(report)
    return metric_bars(MetricName.parse(report.metric), drawn) if report.metric and drawn else None


def write_figures(report: Report, folder: Path) -> list[Path]:
    """Writes every figure of a comparison as PNG and SVG, and returns the files.

    Raises:
        RunError: the folder cannot be written.
    """
    drawn = [(f"curves_{file_name(frame.metric.full)}", learning_curves(frame)) for frame in curve_frames(report)]
    if (chart := draw_bars(report)) is not None and report.metric:
        drawn.insert(0, (f"bars_{file_name(report.metric)}", chart))
    try:
        return [file for name, figure in drawn for file in save_figure(figure, folder, name)]
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {error.strerror}", remedy="Choose another folder") from error


def file_name(metric: str) -> str:
    """Turns a metric's name into a file name: `test/hits@1` becomes `test_hits_at_1`."""
    spelled = metric.replace("@", "_at_")
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in spelled)[:80]
