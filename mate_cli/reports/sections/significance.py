"""Significance of the differences from one configuration."""

from __future__ import annotations

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.significance import Difference, Significance
from mate_cli.reports.view import Column, Mark, ReportSection, Row, View, ViewCell

COLUMNS = tuple(map(Column, ("Score", "Difference", "95 % interval", "p", "p of runs", "Questions", "Runs")))


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return the paired tests against one configuration, None when nobody asked for them."""
    tests = report.significance
    if tests is None or not (tests.differences or tests.notes):
        return None
    title = f"Difference from {tests.against}" + (f": {MetricName.parse(tests.metric).title}" if tests.metric else "")
    views = (View(title, COLUMNS, tuple(difference_row(test, tests) for test in tests.differences)),)
    return ReportSection("significance", title, "Significance", views if tests.differences else (), tests.notes)


def difference_row(test: Difference, tests: Significance) -> Row:
    """Return one test; a difference that chance hardly makes is marked, and has a word beside its p."""
    metric = MetricName.parse(tests.metric)
    spec, scale = metric.spec, metric.scale
    better: Mark = "better" if spec.is_better(test.difference, 0) else "worse"
    mark: Mark = better if test.is_significant else ""
    difference, ends = scale * test.difference, (scale * test.low, scale * test.high)
    between = f"{spec.difference_text(test.low)} to {spec.difference_text(test.high)}"
    return Row(
        test.label,
        (
            ViewCell(spec.text(test.score), scale * test.score),
            ViewCell(spec.difference_text(test.difference), difference, mark=mark),
            ViewCell(between, difference, ends=ends),
            ViewCell(p_text(test.p), test.p, detail=mark or "not clear"),
            ViewCell() if test.runs_p is None else ViewCell(p_text(test.runs_p), test.runs_p),
            ViewCell(f"{test.questions:,}", test.questions),
            ViewCell(str(test.runs), test.runs),
        ),
    )


def p_text(p: float) -> str:
    """Write a probability: <0.001, 0.034, 0.51."""
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
