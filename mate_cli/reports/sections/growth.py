"""A score by the number of training examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mate_cli.metrics.specs.names import SPLITS, MetricName
from mate_cli.reports.compare.grouping import group_runs, repeats
from mate_cli.reports.compare.published import PublishedResult
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.statistics import is_finite, summarize
from mate_cli.reports.plots.growth import GrowthFrame, Point, growth_figure
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.reports.view import ReportSection, View

NOTES = (
    "configurations that differ only in the number of training examples are one line: the mean over seeds, bars are "
    "the standard deviation",
    "published figures are from other sizes and all of the training data",
)


def report_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return the figure, None where nothing was trained on several numbers of examples."""
    frame = growth_frame(report)
    if frame is None:
        return None
    view = View("Score by number of training questions", figures=lambda: [growth_figure(frame)])
    return ReportSection("growth", "Score by number of training questions", "Growth", (view,), NOTES)


SIZE = ("trainer.limit_train", "data.extra_train")
"""Settings that only say how many examples there are."""
MIN_SIZES, MAX_LINES = 3, 8
"""Numbers of examples that make a line; lines that are drawn."""


def growth_frame(report: Report) -> GrowthFrame | None:
    """Read the lines of the metric that ranks; None where nothing was trained on `MIN_SIZES` numbers of examples.

    Points are the mean over seeds with the standard deviation, whatever statistic the report has: of two seeds, half of
    the interquartile range says little.
    """
    if report.metric is None:
        return None
    groups = group_runs(report.runs, ignore=SIZE)
    lines = [(group.label, list(_points(group.runs, report.metric))) for group in groups]
    long = dict([line for line in lines if len(line[1]) >= MIN_SIZES][:MAX_LINES])
    metric = MetricName.parse(report.metric)
    models = {run.setting("model") for run in report.runs}
    return GrowthFrame(metric, long, list(_levels(report.published, metric, models))) if long else None


def _points(runs: Sequence[LoadedRun], metric: str) -> Iterator[Point]:
    """Yield the means of the runs with each number of examples, the least first."""
    sizes: dict[int, list[LoadedRun]] = {}
    for run in runs:
        if (size := run.number("train", "data")) and is_finite(run.metrics.get(metric, float("nan"))):
            sizes.setdefault(int(size), []).append(run)
    for size, members in sorted(sizes.items()):
        values = [run.metrics[metric] for run in repeats(members, False, by_seed=True)]
        if (summary := summarize(values, "mean")) is not None:
            yield Point(size, summary.center, summary.spread)


def _levels(rows: Sequence[PublishedResult], metric: MetricName, models: set[str]) -> Iterator[tuple[str, float]]:
    """Yield what papers have with the same networks; of the other split where they print no figure of this one."""
    for split in (metric.split, *(one for one in SPLITS if one != metric.split)):
        name = f"{split}/{metric.full.partition('/')[2]}"
        if known := [row for row in rows if name in row.metrics and row.model in models]:
            where = "" if split == metric.split else f", {split}"
            yield from ((f"{row.label}, published{where}", row.metrics[name]) for row in known[:2])
            return
