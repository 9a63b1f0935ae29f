"""Scores of answers in networks that leave out tokens."""

from __future__ import annotations

from mate_cli.reports.compare.report import Report
from mate_cli.reports.plots.figures import margin_frames
from mate_cli.reports.plots.score_margins import MarginFrame, score_margins
from mate_cli.reports.view import ReportSection, View

NOTES = (
    "each question's answer against the tokens of its table that are kept, by the scores of the pruning network",
    "right of 0, answers score higher than the rest",
    "all seeds of a configuration together",
)


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return the histograms of score margins, None where no network scores tokens."""
    views = tuple(margin_view(frame) for frame in margin_frames(report))
    title = "Answers against the tokens that are kept"
    return ReportSection("pruning", title, "Pruning", views, NOTES) if views else None


def margin_view(frame: MarginFrame) -> View:
    """Return the histogram of one split."""
    return View(f"{frame.dataset}, {frame.split}", figures=lambda: [score_margins(frame)])
