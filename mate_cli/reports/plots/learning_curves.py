"""One logged metric over the steps, a line per run, a colour per configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.plots.style import INK, add_legend, color_of, dash_of, literal_text, mark_of, new_figure
from mate_cli.reports.runs.load_curves import Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
