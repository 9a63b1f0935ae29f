"""How a score grows with the number of training examples."""

from __future__ import annotations

from mate_cli.reports.compare.growth import growth_frame
from mate_cli.reports.compare.report import Report
from mate_cli.reports.plots.growth import growth_figure
from mate_cli.reports.view import ReportSection, View

NOTES = (
    "configurations that differ only in how many examples they learnt from are one line: the mean over seeds, bars are "
    "the standard deviation",
    "published figures are from other sizes and all of the training data",
)


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Returns the figure, None where nothing was trained on several numbers of examples."""
    frame = growth_frame(report)
    if frame is None:
        return None
    view = View("Score by number of training questions", figures=lambda: [growth_figure(frame)])
    return ReportSection("growth", "Score by number of training questions", "Growth", (view,), NOTES)
