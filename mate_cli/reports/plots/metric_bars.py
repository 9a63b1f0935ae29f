"""The main metric as bars: a bar per configuration, its spread, and each run as a dot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.statistics import Summary
from mate_cli.reports.format import center_text
from mate_cli.reports.plots.style import GRID, INK, literal_text, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Bar:
    """One configuration: its name, colour, summary, and the values it sums up (fractions for a score)."""

    label: str
    color: str
    summary: Summary
    values: tuple[float, ...]


def metric_bars(metric: MetricName, bars: tuple[Bar, ...]) -> Figure:
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
    patch = axes.barh(index, center, height=0.62, color=bar.color, alpha=0.85)[0]
    patch.set_gid(f"bar-g{index}")
    if spread:
        axes.errorbar(center, index, xerr=spread, color=INK, linewidth=1.1, capsize=3.5)
    if len(bar.values) > 1:
        axes.scatter([v * scale for v in bar.values], [index] * len(bar.values), s=6, color=INK, alpha=0.5, zorder=3)
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
    """Cut a long name, so that the bars keep their room."""
    return label if len(label) <= longest else f"{label[: longest - 1]}…"
