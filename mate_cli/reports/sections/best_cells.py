"""Accuracy of row and of column of the best-ranked cell."""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

from mate_cli.metrics.hits_at_k import HITS
from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.questions import Questions, load_questions
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.statistics import summarize
from mate_cli.reports.sections.results import result_cell
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell

TITLE = "Row and column of the top-ranked cell"
COLUMNS = tuple(map(Column, ("In a right row", "In a right column", "Questions")))
BEST = MetricName.parse(f"dev/{HITS[0].name}")
"""Runs with this score rank cells; shares are written as it is."""
NOTES = (
    "percent of the questions with a cell that holds the answer or links to it",
    "a row or column is right if it has such a cell",
)


class RightLines(NamedTuple):
    """In which share of the questions the best cell stands in a right row, and in a right column."""

    row: float
    column: float
    questions: int


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return the table of the split that the report ranks by, None where no run ranks cells."""
    split = (report.metric or "dev/").partition("/")[0]
    rows = tuple(row for group in report.groups if (row := group_row(group, split)))
    return ReportSection("best-cells", TITLE, "Rows", (View(TITLE, COLUMNS, rows),), NOTES, split) if rows else None


def group_row(group: Configuration, split: str) -> Row | None:
    """Return the shares of one configuration, None where it ranks no cells."""
    runs = [run for run in group.counted if f"{split}/{BEST.score}" in run.metrics]
    found = [lines for run in runs if (lines := right_lines(load_questions(run, split)))]
    if not found:
        return None
    rows, columns, counts = zip(*found, strict=True)
    shares = [result_cell(BEST, summarize(line, group.statistic), "") for line in (rows, columns)]
    return Row(group.label, (*shares, ViewCell(f"{max(counts):,}", max(counts))))


def right_lines(questions: Questions) -> RightLines | None:
    """Look where the best cells stand; None without a question that some cell answers."""
    asked = [(made.cells[:1], question.candidates) for question, made in questions.items() if question.candidates]
    if not asked:
        return None

    def share(axis: int) -> float:
        return fmean(bool(best) and best[0][axis] in {cell[axis] for cell in cells} for best, cells in asked)

    return RightLines(share(0), share(1), len(asked))
