"""Margins between the score of answers and that of the tokens that are kept: a histogram per configuration.

Source: Krichene et al. 2021 (DoT), figure 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from mate_cli.metrics.pruning import SCORE_MARGIN
from mate_cli.reports.plots.style import INK, LEGEND, color_of, dash_of, literal_text, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIN_BINS, MAX_BINS = 12, 40
REST = 0.5
"""So many percent of all questions at either end are counted in the last bins, so that the others have room."""


@dataclass(frozen=True)
class Margins:
    """The margins of one configuration: its name, its place among all, and one value per question and run."""

    label: str
    index: int
    values: tuple[float, ...]


@dataclass(frozen=True)
class MarginFrame:
    """The content of a figure: data set, split, and the configurations."""

    dataset: str
    split: str
    configurations: tuple[Margins, ...]


def score_margins(frame: MarginFrame) -> Figure:
    """Draw the histograms as outlines over the same bins, in percent of a configuration's questions."""
    import numpy as np

    every = np.concatenate([margins.values for margins in frame.configurations])
    low, high = np.percentile(every, [REST, 100 - REST])
    room = max(high - low, 1e-3)
    bins = int(np.clip(2 * (len(every) / len(frame.configurations)) ** 0.5, MIN_BINS, MAX_BINS))
    edges = np.linspace(min(low, 0.0) - 0.02 * room, max(high, 0.0) + 0.02 * room, bins + 1)
    figure, axes = new_figure(9.4, 3.1 + 0.19 * len(frame.configurations))
    axes.axvline(0, color=INK, linewidth=0.9)
    for margins in frame.configurations:
        inside = np.clip(margins.values, edges[0], edges[-1])
        shares = 100 * np.histogram(inside, edges)[0] / len(inside)
        outline = axes.stairs(
            shares, edges, color=color_of(margins.index), linestyle=dash_of(margins.index), linewidth=1.6
        )
        outline.set_label(literal_text(f"{margins.label}: {margins_text(margins.values)}"))
        axes.stairs(shares, edges, color=color_of(margins.index), fill=True, alpha=0.12)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("score (log P) of the answer's tokens above that of the table's tokens that are kept", color=INK)
    axes.set_ylabel("questions (%)", color=INK)
    figure.legend(loc="outside lower left", **LEGEND)
    return figure


def margins_text(values: Sequence[float]) -> str:
    """Sum margins up: `mean +0.530, above 0 for 81.2%`."""
    above = sum(value > 0 for value in values) / len(values)
    return f"mean {SCORE_MARGIN.difference_text(fmean(values))}, above 0 for {above:.1%}"
