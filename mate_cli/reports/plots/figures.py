"""Figures of a comparison as files: scores as bars, learning curves, and score margins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from mate_cli.errors import RunError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.metrics.pruning import SCORE_MARGIN
from mate_cli.metrics.specs import SPLITS
from mate_cli.reports.compare.questions import scored_runs
from mate_cli.reports.compare.report import Report
from mate_cli.reports.plots.style import INK, LEGEND, color_of, dash_of, literal_text, new_figure, save_figure
from mate_cli.reports.sections.curves import draw_curves, list_logged_metrics, read_logs
from mate_cli.reports.sections.results import metric_bars, score_bars

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_CURVES, MAX_MARGINS = 12, 8


class Margins(NamedTuple):
    """The score margins of the questions that one configuration answered.

    The score margin of a question is the mean token score of the answer minus the mean score of the table's kept
    tokens.

    Args:
        label: label of the configuration.
        place: index of the configuration among all configurations.
        values: one margin per question and run.
    """

    label: str
    place: int
    values: tuple[float, ...]


def read_margins(report: Report, block: str) -> list[Margins]:
    """Read the score margins of pruning for the best configurations of a block.

    Margins of the test split are preferred.
    """
    for split in reversed(SPLITS):
        margins = []
        for index, group in enumerate(report.groups):
            seeds = scored_runs(group, f"{split}/{SCORE_MARGIN.name}").values() if group.block == block else ()
            if values := tuple(value for seed in seeds for _, value in seed.values()):
                margins.append(Margins(group.label, index, values))
        if margins:
            return margins[:MAX_MARGINS]
    return []


def write_figures(report: Report, folder: Path) -> list[Path]:
    """Draw all figures of a comparison, and write each as PNG, SVG and PDF.

    Args:
        report: comparison to draw.
        folder: folder to write to.

    Returns:
        The written files.

    Raises:
        RunError: the folder cannot be written.
    """
    logs = read_logs(report, most=MAX_CURVES)
    named_figures = [
        (f"curves_{file_name(metric.full)}", draw_curves(logs, metric)) for metric in list_logged_metrics(logs)
    ]
    metric = report.names.get(report.metric or "")
    if metric and (bars := score_bars(report, metric)):
        named_figures.insert(0, (f"bars_{file_name(metric.full)}", metric_bars(metric, bars)))
    for block in dict.fromkeys(group.block for group in report.groups):
        if block_margins := read_margins(report, block):
            named_figures.append((f"score_margins_{file_name(block)}", score_margins(block_margins)))
    with wrap_file_errors(folder, RunError, "cannot be written", "Choose another folder"):
        return [file for name, figure in named_figures for file in save_figure(figure, folder, name)]


def file_name(metric: str) -> str:
    """Convert the name of a metric to a file name: `test/hits@1` becomes `test_hits_at_1`."""
    safe_name = metric.replace("@", "_at_")
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in safe_name)[:80]


MIN_BINS, MAX_BINS = 12, 40
REST = 0.5
"""Percent of all questions at either end that are clipped into the outer bins.

Outliers therefore do not widen the axis.
"""


def score_margins(configurations: Sequence[Margins]) -> Figure:
    """Draw a histogram of the score margins of each configuration, in percent of questions.

    All histograms use the same bins.
    """
    import numpy as np

    all_values = np.concatenate([group.values for group in configurations])
    low, high = np.percentile(all_values, [REST, 100 - REST])
    width = max(high - low, 1e-3)
    bins = int(np.clip(2 * (len(all_values) / len(configurations)) ** 0.5, MIN_BINS, MAX_BINS))
    edges = np.linspace(min(low, 0.0) - 0.02 * width, max(high, 0.0) + 0.02 * width, bins + 1)
    figure, axes = new_figure(9.4, 3.1 + 0.19 * len(configurations))
    axes.axvline(0, color=INK, linewidth=0.9)
    for group in configurations:
        clipped = np.clip(group.values, edges[0], edges[-1])
        shares = 100 * np.histogram(clipped, edges)[0] / len(clipped)
        outline = axes.stairs(shares, edges, color=color_of(group.place), linestyle=dash_of(group.place), linewidth=1.6)
        outline.set_label(literal_text(f"{group.label}: {margins_text(group.values)}"))
        axes.stairs(shares, edges, color=color_of(group.place), fill=True, alpha=0.12)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("score (log P) of the answer's tokens above that of the table's tokens that are kept", color=INK)
    axes.set_ylabel("questions (%)", color=INK)
    figure.legend(loc="outside lower left", **LEGEND)
    return figure


def margins_text(values: Sequence[float]) -> str:
    """Summarize score margins as text: `mean +0.530, above 0 for 81.2%`."""
    positive_share = sum(value > 0 for value in values) / len(values)
    return f"mean {SCORE_MARGIN.difference_text(fmean(values))}, above 0 for {positive_share:.1%}"
