"""A score by the number of training examples."""

from __future__ import annotations

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.grouping import Configuration, group_runs, repeats
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.statistics import summarize
from mate_cli.reports.sections.results import result_cell
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell

NOTES = (
    "configurations that differ only in the number of training examples are one row: the mean over seeds ± the "
    "standard deviation",
)
SIZE = ("trainer.limit_train", "data.extra_train")
"""Settings that only say how many examples there are."""
MIN_SIZES, MAX_SIZES, MAX_ROWS = 3, 8, 12
"""Numbers of examples that make a row; columns and rows that are shown."""


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return a table per block, None where nothing was trained on `MIN_SIZES` numbers of examples."""
    sizes = sorted({int(size) for run in report.runs if (size := run.number("train", "data"))})
    if report.metric is None or len(sizes) < MIN_SIZES:
        return None
    metric = MetricName.parse(report.metric)
    blocks: dict[str, list[Row]] = {}
    for group in group_runs(report.runs, ignore=SIZE):
        cells = {size: size_cell(group, metric, size) for size in sizes[:MAX_SIZES]}
        if sum(cell.value is not None for cell in cells.values()) >= MIN_SIZES:
            blocks.setdefault(group.block, []).append(Row(group.label, tuple(cells.values())))
    columns = tuple(Column(f"{size:,}") for size in sizes[:MAX_SIZES])
    title = f"{metric.title_with_unit} by number of training questions"
    views = tuple(
        View(title if len(blocks) == 1 else f"{title}, {block}", columns, tuple(rows[:MAX_ROWS]))
        for block, rows in blocks.items()
    )
    return ReportSection("growth", title, "Growth", views, NOTES) if views else None


def size_cell(group: Configuration, metric: MetricName, size: int) -> ViewCell:
    """Return the mean of the runs with a number of examples, whatever statistic the report has: seeds are few."""
    runs = [run for run in group.runs if run.number("train", "data") == size]
    values = [run.metrics[metric.full] for run in repeats(runs, False, by_seed=True) if metric.full in run.metrics]
    return result_cell(metric, summarize(values, "mean"), "")
