"""Report section of significance tests against one reference configuration."""

from __future__ import annotations

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.significance import Difference
from mate_cli.reports.view import Column, Mark, ReportSection, Row, View, ViewCell

COLUMNS = tuple(
    map(Column, ("Score", "Difference", "95 % interval", "p", "p with seeds", "Questions", "Tables", "Runs"))
)


def significance_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return significance tests against one reference configuration.

    The result is None if the option `against` is not set.

    Args:
        report: comparison of runs.
        wide: not used.
    """
    tests = report.significance
    if tests is None or not (tests.differences or tests.notes):
        return None
    metric = report.names.get(tests.metric)
    title = f"Difference from {tests.against}" + (f": {metric.title}" if metric else "")
    rows = tuple(difference_row(test, metric) for test in tests.differences if metric)
    views = (View(title, COLUMNS, rows),)
    return ReportSection("significance", title, "Significance", views if tests.differences else (), tests.notes)


def difference_row(test: Difference, metric: MetricName) -> Row:
    """Build the table row with the score difference of a configuration and its p-values.

    A significant difference is marked, and described as better or worse next to its p-value.

    Args:
        test: test of one configuration.
        metric: metric of the test.
    """
    spec, scale = metric.spec, metric.spec.scale
    direction: Mark = "better" if spec.is_better(test.difference, 0) else "worse"
    mark: Mark = direction if test.is_significant else ""
    difference, interval = scale * test.difference, (scale * test.low, scale * test.high)
    interval_text = f"{spec.difference_text(test.low)} to {spec.difference_text(test.high)}"
    return Row(
        test.label + f", on {test.split}" * (test.split != metric.split),
        (
            ViewCell(spec.text(test.score), scale * test.score),
            ViewCell(spec.difference_text(test.difference), difference, mark=mark),
            ViewCell(interval_text, difference, ends=interval),
            ViewCell(p_text(test.holm_p), test.holm_p, detail=mark or "not clear"),
            ViewCell() if test.joint_holm_p is None else ViewCell(p_text(test.joint_holm_p), test.joint_holm_p),
            ViewCell(f"{test.questions:,}", test.questions),
            ViewCell(f"{test.tables:,}", test.tables),
            ViewCell(str(test.runs), test.runs),
        ),
    )


def p_text(p: float) -> str:
    """Format a p-value with two or three decimals: <0.001, 0.034, 0.51."""
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
