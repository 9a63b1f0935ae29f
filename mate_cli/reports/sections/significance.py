"""Significance of the differences from one configuration."""

from __future__ import annotations

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.significance import Difference, Significance
from mate_cli.reports.view import Column, Mark, ReportSection, Row, View, ViewCell

COLUMNS = tuple(map(Column, ("Score", "Difference", "95 % interval", "p", "p of runs", "Questions", "Runs")))


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return the paired tests against one configuration, None when nobody asked for them."""
    found = report.significance
    if found is None or not (found.differences or found.notes):
        return None
    title = f"Difference from {found.against}" + (f": {MetricName.parse(found.metric).title}" if found.metric else "")
    views = (View(title, COLUMNS, tuple(difference_row(one, found) for one in found.differences)),)
    return ReportSection("significance", title, "Significance", views if found.differences else (), found.notes)


def difference_row(one: Difference, found: Significance) -> Row:
    """Return one test; a difference that chance hardly makes is marked, and has a word beside its p."""
    metric = MetricName.parse(found.metric)
    spec, scale = metric.spec, metric.scale
    better: Mark = "better" if spec.is_better(one.difference, 0) else "worse"
    mark: Mark = better if one.is_significant else ""
    difference, ends = scale * one.difference, (scale * one.low, scale * one.high)
    between = f"{spec.difference_text(one.low)} to {spec.difference_text(one.high)}"
    return Row(
        one.label,
        (
            ViewCell(spec.text(one.score), scale * one.score),
            ViewCell(spec.difference_text(one.difference), difference, mark=mark),
            ViewCell(between, difference, ends=ends),
            ViewCell(p_text(one.p), one.p, detail=mark or "not clear"),
            ViewCell() if one.runs_p is None else ViewCell(p_text(one.runs_p), one.runs_p),
            ViewCell(f"{one.questions:,}", one.questions),
            ViewCell(str(one.runs), one.runs),
        ),
    )


def p_text(p: float) -> str:
    """Write a probability: <0.001, 0.034, 0.51."""
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
