"""Accuracy beside training speed, as in the DoT paper.

Source: Krichene et al. 2021, "DoT: An Efficient Double Transformer for NLP tasks with tables".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.published import PublishedResult, published_results
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.statistics import Summary
from mate_cli.reports.compare.tables import paper_cell
from mate_cli.reports.format import center_text, rate_text, spread_text
from mate_cli.reports.page.page_data import blocks_of
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell

NOTES = (
    "best: the best run of a row; the median or mean of its runs is next to it",
    "examples per second are measured in training, on the machine of each source",
)


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return a table per data set of which a paper prints speeds; None where no run has its metric."""
    views = list(efficiency_views(report)) if report.published else []
    return ReportSection("efficiency", "Accuracy and speed", "Speed", tuple(views), NOTES) if views else None


def efficiency_views(report: Report) -> Iterator[View]:
    """Yield the tables, configurations above published figures."""
    for block, dataset in blocks_of(report).items():
        groups = [group for group in report.groups if group.block == block]
        papers = [row for row in published_results(dataset) if row.examples_per_second]
        for metric in map(MetricName.parse, dict.fromkeys(name for row in papers for name in row.best)):
            rows = [*measured_rows(groups, metric), *published_rows(papers, metric)]
            if len(rows) > len(papers):
                columns = (Column(metric.title), Column("Best"), Column("Examples/s"))
                yield View(f"{block}, {metric.split}", columns, tuple(rows))


def measured_rows(groups: Sequence[Configuration], metric: MetricName) -> Iterator[Row]:
    """Yield the configurations that have the metric."""
    for group in groups:
        if summary := group.summary(metric.full):
            rate = group.cost("examples_per_second", "throughput")
            best = summary.high if metric.direction >= 0 else summary.low
            yield Row(group.label, cells(metric, summary, best, rate.center if rate else None))


def published_rows(papers: Sequence[PublishedResult], metric: MetricName) -> Iterator[Row]:
    """Yield the rows of a paper that have the metric."""
    for paper in papers:
        if summary := paper_cell(paper, metric.full):
            best, rate = paper.best.get(metric.full), paper.examples_per_second
            yield Row(paper.label, cells(metric, summary, best, rate), "published")


def cells(metric: MetricName, summary: Summary, best: float | None, rate: float | None) -> tuple[ViewCell, ...]:
    """Return the middle with its spread, the best, and the examples per second."""
    spread = None if summary.spread is None else metric.scale * summary.spread
    middle = ViewCell(center_text(summary, metric), metric.scale * summary.center, spread_text(summary, metric), spread)
    top = ViewCell() if best is None else ViewCell(metric.spec.text(best), metric.scale * best)
    return middle, top, ViewCell(rate_text(rate), rate)
