"""A score over the number of training examples, on a logarithmic axis, a line per network, published levels dashed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.plots.style import INK, add_legend, color_of, dash_of, literal_text, mark_of, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Point:
    """One number of training examples.

    Args:
        examples: how many.
        mean: over the seeds.
        error: their standard deviation, None for a single one.
    """

    examples: int
    mean: float
    error: float | None


@dataclass(frozen=True)
class GrowthFrame:
    """The content of the figure.

    Args:
        metric: that grows.
        lines: the points of each network, by its label.
        levels: figures of papers, with all of their training examples, each with its label.
    """

    metric: MetricName
    lines: Mapping[str, Sequence[Point]]
    levels: Sequence[tuple[str, float]]


def growth_figure(frame: GrowthFrame) -> Figure:
    """Draw the lines with their error bars; ticks stand at the numbers of examples that were trained with."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    figure, axes = new_figure(6.8, 4.2)
    scale = frame.metric.scale
    for index, (label, points) in enumerate(frame.lines.items()):
        drawn = axes.errorbar(
            [point.examples for point in points],
            [scale * point.mean for point in points],
            [nan if point.error is None else scale * point.error for point in points],  # one seed has none
            capsize=3,
            color=color_of(index),
            linestyle=dash_of(index),
            linewidth=1.5,
            marker=mark_of(index),
            markersize=4,
        )
        drawn.lines[0].set_gid(f"growth-g{index}")
        drawn.set_label(literal_text(label))
    for place, (label, value) in enumerate(frame.levels):
        axes.axhline(scale * value, color=INK, linewidth=1.1, linestyle=("--", ":")[place % 2], alpha=0.8)
        axes.get_lines()[-1].set_label(literal_text(label))
    axes.set_xscale("log")
    sizes = sorted({point.examples for points in frame.lines.values() for point in points})
    axes.xaxis.set_major_locator(FixedLocator(space_out(sizes)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("training questions", color=INK)
    axes.set_title(literal_text(frame.metric.title_with_unit), loc="left", fontsize=9.5, fontweight="bold", color=INK)
    add_legend(figure, axes.get_legend_handles_labels()[1])
    return figure


def space_out(sizes: list[int], least: float = 1.25) -> list[int]:
    """Return the sizes that have room for their numbers beside each other."""
    kept: list[int] = []
    for size in sizes:
        if not kept or size >= least * kept[-1]:
            kept.append(size)
    return kept
