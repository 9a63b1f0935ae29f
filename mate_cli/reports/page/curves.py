"""Learning curves, which the page's scripts draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.report import Report
from mate_cli.reports.page.page_data import curve_data
from mate_cli.reports.plots.figures import (
    MAX_FIGURES,
    MAX_REPEATS,
    PlottedConfiguration,
    curve_names,
    draw_curves,
    read_logs,
)
from mate_cli.reports.view import ReportSection, sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_CURVES = 24
STILL_CURVES = 8
"""Configurations that are drawn where no script runs, and shown at first where one does."""
NOTES = (
    f"at most {MAX_FIGURES} metrics and {MAX_REPEATS} runs of a configuration",
    "numbers appear under the pointer, or with the arrow keys on a chart",
)


def report_section(report: Report, *, wide: bool) -> ReportSection:
    """Return the learning curves, for the scripts to draw; without them one picture remains."""
    total = len(report.groups)
    hint = f"best {MAX_CURVES} of {total} configurations" if total > MAX_CURVES else ""

    def content() -> Mapping[str, Any] | None:
        drawn = read_logs(report, most=MAX_CURVES)
        names = curve_names(drawn)
        if not names:
            return None
        data = curve_data(report, drawn)
        return {
            "data": data,
            "blocks": list(enumerate(data["blocks"])),
            "published": any(any(metric["lines"]) for metric in data["metrics"]),
            "first": STILL_CURVES,
            "note": sentences(NOTES),
            "still": lambda: still_figure(drawn, names),
        }

    return ReportSection("curves", "Learning curves", "Curves", hint=hint, template="curves.html", content=content)


def still_figure(drawn: Sequence[PlottedConfiguration], names: Sequence[str]) -> Figure:
    """Draw the most telling score, or the loss without one, for pages without scripts."""
    name = next((metric for metric in names if MetricName.parse(metric).is_score), names[0])
    return draw_curves(drawn[:STILL_CURVES], name)
