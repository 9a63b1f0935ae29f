"""Size, speed, FLOPs, time and memory of configurations, and accuracy beside speed as in the DoT paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.configuration import Configuration
from mate_cli.reports.compare.report import Report, state_text
from mate_cli.reports.compare.statistics import Summary
from mate_cli.reports.compare.tables import PublishedResult, paper_cell, published_results
from mate_cli.reports.format import center_text, count_text, duration_text, rate_text, spread_text
from mate_cli.reports.page.scores import blocks_of, metric_data, score_names
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell

MAX_POINTS = 40
"""Configurations in the plot of a score against a cost."""


class Cost(NamedTuple):
    """One column of costs.

    Args:
        name: its heading.
        heading: the same in two lines, for narrow columns.
        title: the name in full, for axes.
        kind: the kind of its axis: count, memory or duration.
        key: the entry of `record.json`.
        inside: the mapping that holds the entry, None for the record itself.
        write: writes a value.
    """

    name: str
    heading: str
    title: str
    kind: str
    key: str
    inside: str | None
    write: Callable[[float], str]

    def of(self, group: Configuration) -> Summary | None:
        """Sum the cost up over the runs that count; a zero stands for a cost that was not measured."""
        if group.is_untrained and self.inside is None:
            return None  # that of scoring its answers
        summary = group.cost(self.key, self.inside)
        return summary if summary and summary.high > 0 else None

    def cell(self, group: Configuration) -> ViewCell:
        """Return the cost of a configuration."""
        summary = self.of(group)
        return ViewCell() if summary is None else ViewCell(self.write(summary.center), summary.center)


def flops_text(value: float) -> str:
    """Write floating point operations with a unit: 3.2 G, 1.4 T."""
    for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"


def memory_text(megabytes: float) -> str:
    """Write memory: 1.6 GB."""
    return f"{megabytes / 1000:.1f} GB"


RATE, WORK, PRICE = "examples_per_second", "training_flops_per_example", "cost_per_question"
COSTS = (
    Cost("Parameters", "\nParameters", "Parameters", "count", "parameters", None, count_text),
    Cost("Examples/s", "Examples\nper second", "Examples per second", "count", RATE, "throughput", rate_text),
    Cost("FLOPs/example", "FLOPs\nper example", "Training FLOPs per example", "count", WORK, "throughput", flops_text),
    Cost("Wall time", "Wall\ntime", "Wall time", "duration", "wall_seconds", None, duration_text),
    Cost("Peak memory", "Peak\nmemory", "Peak memory", "memory", "peak_memory_mb", None, memory_text),
    Cost("Cost/question", "Cost per\nquestion", "Stated cost", "count", PRICE, "throughput", "{:.3g}".format),
)


def recorded_costs(groups: Sequence[Configuration]) -> tuple[Cost, ...]:
    """Return the costs that any of the configurations recorded."""
    return tuple(cost for cost in COSTS if any(cost.of(group) for group in groups))


def cost_section(report: Report, *, wide: bool) -> ReportSection:
    """Return size, speed, FLOPs, time and memory of configurations; a cost that no run recorded has no column."""
    costs = recorded_costs(report.groups)
    status = Column("Status", is_number=False, minor=not report.unfinished)  # the footer counts those that finished
    columns = (*(Column(cost.name, stacked=cost.heading) for cost in costs), status)
    rows = tuple(
        Row(group.label, (*(cost.cell(group) for cost in costs), state_cell(group))) for group in report.groups
    )
    view = View("Cost", columns, rows)
    return ReportSection(
        "cost", "Score and cost", "Cost", (view,), template="cost.html", content=lambda: cost_content(report)
    )


def state_cell(group: Configuration) -> ViewCell:
    """Return how many runs there are of each status."""
    text = state_text(group.runs)
    return ViewCell(text, states=tuple(text.split(", ")))


def cost_content(report: Report) -> Mapping[str, Any]:
    """Return scores and costs of the configurations that have both, for the page's scripts to draw, and their menus."""
    names = score_names(report)
    costs = sorted(recorded_costs(report.groups), key=lambda cost: cost.key == "parameters")  # tells least, so last
    blocks, groups = list(blocks_of(report)), []
    for index, group in enumerate(report.groups[:MAX_POINTS]):
        scores, prices = number_pairs(map(group.summary, names)), number_pairs(cost.of(group) for cost in costs)
        if scores and prices:
            groups.append(
                {
                    "label": group.label,
                    "index": index,
                    "block": blocks.index(group.block),
                    "scores": scores,
                    "costs": prices,
                }
            )
    if not groups:
        return {"data": None}
    metrics = [metric_data(report, MetricName.parse(name)) for name in names]
    data = {
        "metrics": metrics,
        "blocks": blocks,
        "costs": [{"title": cost.title, "kind": cost.kind} for cost in costs],
        "groups": groups,
    }
    return {
        "data": data,
        "scores": list(enumerate(metric["title"] for metric in metrics)),
        "costs": list(enumerate(cost.title for cost in costs)),
        "blocks": list(enumerate(blocks)),
    }


def number_pairs(summaries: Iterable[Summary | None]) -> dict[str, list[float]]:
    """Return [middle, spread] with five digits by the number of what is known."""
    return {
        str(number): [float(f"{summary.center:.5g}"), float(f"{summary.spread or 0.0:.3g}")]
        for number, summary in enumerate(summaries)
        if summary is not None
    }


SPEED_NOTES = (
    "best: the best run of a row; the median or mean of its runs is next to it",
    "examples per second are measured in training, on the machine of each source",
)


def speed_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return accuracy beside training speed, as in the DoT paper; None where no run has its metric."""
    views = list(efficiency_views(report)) if report.published else []
    return ReportSection("efficiency", "Accuracy and speed", "Speed", tuple(views), SPEED_NOTES) if views else None


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
            yield Row(group.label, speed_cells(metric, summary, best, rate.center if rate else None))


def published_rows(papers: Sequence[PublishedResult], metric: MetricName) -> Iterator[Row]:
    """Yield the rows of a paper that have the metric."""
    for paper in papers:
        if summary := paper_cell(paper, metric.full):
            best, rate = paper.best.get(metric.full), paper.examples_per_second
            yield Row(paper.label, speed_cells(metric, summary, best, rate), "published")


def speed_cells(metric: MetricName, summary: Summary, best: float | None, rate: float | None) -> tuple[ViewCell, ...]:
    """Return the middle with its spread, the best, and the examples per second."""
    spread = None if summary.spread is None else metric.scale * summary.spread
    middle = ViewCell(center_text(summary, metric), metric.scale * summary.center, spread_text(summary, metric), spread)
    top = ViewCell() if best is None else ViewCell(metric.spec.text(best), metric.scale * best)
    return middle, top, ViewCell(rate_text(rate), rate)
