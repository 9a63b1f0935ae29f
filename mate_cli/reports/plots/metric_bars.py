"""Scores as bars: a bar per configuration, its spread, and each run as a dot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.statistics import Summary, is_finite
from mate_cli.reports.format import center_text
from mate_cli.reports.plots.style import GRID, INK, color_of, literal_text, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_BARS = 30


@dataclass(frozen=True)
class Bar:
    """One configuration, in the metric's own unit.

    Args:
        label: its name.
        place: among all configurations, which is that of its colour.
        block: that it is ranked in.
        summary: of the values.
        values: of single runs.
    """

    label: str
    place: int
    block: str
    summary: Summary
    values: tuple[float, ...]

    @property
    def dots(self) -> tuple[float, ...]:
        """The values, where there are several."""
        return self.values if self.summary.count > 1 else ()


def metric_bars(metric: MetricName, bars: Sequence[Bar]) -> Figure:
    """Draw horizontal bars, the first on top; the axis of a score begins at zero, so that lengths compare."""
    figure, axes = new_figure(9.4, 0.75 + 0.36 * max(len(bars), 2))
    scale = metric.scale
    for index, bar in enumerate(bars):
        draw_bar(axes, index, bar, metric, scale)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_yticks(range(len(bars)), [literal_text(short(bar.label)) for bar in bars])
    highest = max((bar.summary.high for bar in bars), default=1.0) * scale
    axes.set_xlim(min(0.0, min((bar.summary.low for bar in bars), default=0.0) * scale), (highest * 1.14) or 1.0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(literal_text(metric.title_with_unit), color=INK)
    return figure


def draw_bar(axes: Axes, index: int, bar: Bar, metric: MetricName, scale: float) -> None:
    """Draw one bar with its error bar, its runs and its number."""
    center, spread = bar.summary.center * scale, (bar.summary.spread or 0.0) * scale
    patch = axes.barh(index, center, height=0.62, color=color_of(bar.place), alpha=0.85)[0]
    patch.set_gid(f"bar-g{index}")
    if spread:
        axes.errorbar(center, index, xerr=spread, color=INK, linewidth=1.1, capsize=3.5)
    if bar.dots:
        axes.scatter([dot * scale for dot in bar.dots], [index] * len(bar.dots), s=6, color=INK, alpha=0.5, zorder=3)
    end = max(center + spread, bar.summary.high * scale, 0.0)
    axes.annotate(
        center_text(bar.summary, metric),
        (end, index),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        fontweight="bold",
        color=INK,
    )
    axes.axvline(0, color=GRID, linewidth=1)


def short(label: str, longest: int = 46) -> str:
    """Cut a long name in its middle, so that the bars keep their room and the end still tells it apart."""
    start = longest // 3
    return label if len(label) <= longest else f"{label[:start]}…{label[start + 1 - longest :]}"


def score_bars(report: Report, metric: str) -> list[Bar]:
    """Return the bars of a metric in the order of the report, in the colours of the curves."""
    drawn = []
    for place, group in enumerate(report.groups[:MAX_BARS]):
        if (summary := group.summary(metric)) is not None:
            values = (run.metrics.get(metric, math.nan) for run in group.counted)
            drawn.append(Bar(group.label, place, group.block, summary, tuple(filter(is_finite, values))))
    return drawn
