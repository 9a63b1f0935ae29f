"""Cost by length: a panel per shape of tables, a line per variant, both axes logarithmic.

Source: MATE paper, figures 4, 5 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mate_cli.reports.plots.style import INK, LEGEND, color_of, dash_of, literal_text, mark_of, new_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (3.35, 2.75)
MIN_WIDTH = 6.9
LEGEND_LINE = 0.19
LETTERS_PER_INCH, HANDLE_LETTERS = 15, 9
"""Sizes of the legend, estimated generously."""


@dataclass(frozen=True)
class Panel:
    """One panel.

    Args:
        title: above it.
        lines: of each variant, its (length, cost) points.
    """

    title: str
    lines: Mapping[str, Sequence[tuple[int, float]]]


@dataclass(frozen=True)
class ScalingFrame:
    """The content of a figure.

    Args:
        name: tells the figure's lines from those of others.
        unit: of the cost.
        variants: all that may occur; the place of a variant gives its colour.
        panels: rows of panels.
        axis: what the lengths are of.
    """

    name: str
    unit: str
    variants: tuple[str, ...]
    panels: tuple[tuple[Panel, ...], ...]
    axis: str = "tokens"


def scaling_figure(frame: ScalingFrame) -> Figure:
    """Draw the panels, at least `MIN_WIDTH` inches wide; panels of a row share their axis of cost."""
    rows, columns = len(frame.panels), max(map(len, frame.panels))
    names = [name for name in frame.variants if any(name in panel.lines for row in frame.panels for panel in row)]
    width = max(MIN_WIDTH, PANEL[0] * columns + 0.3)
    in_a_row = legend_columns(names, width)
    height = PANEL[1] * rows + LEGEND_LINE * (1 + -(-len(names) // in_a_row))
    figure, axes = new_panels(rows, columns, width, height)
    for row, panels in enumerate(frame.panels):
        for column, panel in enumerate(panels):
            draw_panel(axes[row][column], panel, frame)
        axes[row][0].set_ylabel(frame.unit, color=INK)
    for axis in axes[-1]:
        axis.set_xlabel(frame.axis, color=INK)
    drawn = {line.get_label(): line for row in axes for axis in row for line in axis.get_lines()}
    handles = [drawn[literal_text(name)] for name in names]
    figure.legend(handles=handles, loc="outside lower center", ncols=in_a_row, **LEGEND)
    return figure


def legend_columns(names: Sequence[str], width: float) -> int:
    """Return how many names of the legend stand side by side in so many inches, in lines of about equal length."""
    most = max(1, int(width * LETTERS_PER_INCH / (max(map(len, names)) + HANDLE_LETTERS)))
    lines = -(-len(names) // most)
    return -(-len(names) // lines)


def draw_panel(axes: Axes, panel: Panel, frame: ScalingFrame) -> None:
    """Draw the lines of one panel, ticks at the lengths that were measured."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    for index, name in enumerate(frame.variants):
        points = panel.lines.get(name)
        if points:
            (line,) = axes.plot(*zip(*points, strict=True), linewidth=1.5, marker=mark_of(index), markersize=4)
            line.set_label(literal_text(name))
            line.set_gid(f"{frame.name}-{panel.title}-{name}".replace(" ", "_"))
            line.set(color=color_of(index), linestyle=dash_of(index))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    lengths = sorted({length for points in panel.lines.values() for length, _ in points})
    axes.set_xticks(lengths, [length_text(length) for length in lengths])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if narrow(panel) else (1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title(literal_text(panel.title), loc="left", fontsize=9.5, fontweight="bold", color=INK)


def narrow(panel: Panel) -> bool:
    """Tell whether costs span less than a factor of 100, so that powers of ten alone would be too few ticks."""
    costs = [cost for points in panel.lines.values() for _, cost in points]
    return bool(costs) and max(costs) < 100 * min(costs)


def length_text(tokens: int) -> str:
    """Write a length: 512, 2K, 8180."""
    return f"{tokens // 1024}K" if tokens % 1024 == 0 else str(tokens)
