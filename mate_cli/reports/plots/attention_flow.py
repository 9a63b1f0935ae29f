"""Observed attention flow: how often as much as uniform attention goes where, and to what each head looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mate_cli.reports.plots.style import COLORS, INK, LEGEND, color_of, literal_text, new_figure, new_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIN_RATIO = 0.01
"""The start of bars; smaller ratios all look alike."""
COLUMNS = 4


def flow_bars(targets: Sequence[str], series: Mapping[str, Sequence[float]]) -> Figure:
    """Draw the ratio to uniform attention on a log scale, a group of bars per target.

    Args:
        targets: the kinds of tokens.
        series: a ratio per target, by whose they are.
    """
    figure, axes = new_figure(9.4, 3.6)
    width = 0.8 / len(series)
    for place, (label, ratios) in enumerate(series.items()):
        lefts = [target + (place - (len(series) - 1) / 2) * width for target in range(len(targets))]
        heights = [max(ratio, MIN_RATIO) - MIN_RATIO for ratio in ratios]
        axes.bar(lefts, heights, 0.9 * width, bottom=MIN_RATIO, color=color_of(place), label=literal_text(label))
    axes.set_yscale("log")
    axes.axhline(1, color=INK, linewidth=0.9)
    axes.set_xticks(range(len(targets)), [target.replace(", ", ",\n") for target in targets])
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("attention over uniform attention", color=INK)
    figure.legend(loc="outside upper left", ncols=min(4, len(series)), **LEGEND)
    return figure


def flow_heat_maps(targets: Sequence[str], attention: Sequence[Sequence[Sequence[float]]]) -> Figure:
    """Draw a map per target: how much of the attention of each head, layer by layer, goes there.

    Args:
        targets: the kinds of tokens.
        attention: fractions [layers][heads][targets].
    """
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap

    values = 100 * np.array(attention)
    layers, heads = values.shape[:2]
    rows = -(-len(targets) // COLUMNS)
    figure, panels = new_panels(rows, COLUMNS, 9.4, rows * max(1.7, 0.6 + 0.14 * layers))
    shades = LinearSegmentedColormap.from_list("flow", ["#ffffff", COLORS[0]])
    for place, target in enumerate(targets):
        axes = panels[place // COLUMNS][place % COLUMNS]
        drawn = axes.pcolormesh(values[:, :, place], cmap=shades, vmin=0, vmax=100, edgecolors="none")
        axes.set_title(f"{target}: {values[:, :, place].mean():.1f} %", color=INK, fontsize=8.5)
        axes.set_xticks([0.5, heads - 0.5], ["1", str(heads)])
        axes.set_yticks([0.5, layers - 0.5], ["1", str(layers)])
        axes.grid(visible=False)
        axes.set_xlabel("head", color=INK, fontsize=8)
        if place % COLUMNS == 0:
            axes.set_ylabel("layer", color=INK, fontsize=8)
            axes.invert_yaxis()
    bar = figure.colorbar(drawn, ax=[axes for row in panels for axes in row], fraction=0.02, pad=0.01)
    bar.set_label("% of a head's attention", color=INK, fontsize=8)
    bar.ax.tick_params(colors=INK, labelsize=7.5, length=0)
    bar.outline.set_visible(False)
    return figure
