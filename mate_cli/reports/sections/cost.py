"""What each configuration cost, and what became of its runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.report import Report, state_text
from mate_cli.reports.compare.statistics import Summary
from mate_cli.reports.format import NOTHING, count_text, duration_text, rate_text
from mate_cli.reports.page.page_data import cost_data
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell


def report_section(report: Report, *, wide: bool) -> ReportSection:
    """Returns the table; what nobody recorded has no column."""
    costs = recorded_costs(report.groups)
    columns = (*(Column(cost.name, stacked=cost.heading) for cost in costs), Column("Status", is_number=False))
    rows = tuple(
        Row(group.label, (*(cost_cell(cost, group) for cost in costs), status(group))) for group in report.groups
    )
    view = View("Cost and status", columns, rows)
    return ReportSection(
        "cost", "Score and cost", "Cost", (view,), template="cost.html", content=lambda: cost_content(report)
    )


def cost_content(report: Report) -> Mapping[str, Any]:
    """Return a score against a cost, each of choice, for the page's scripts to draw."""
    data = cost_data(report)
    if data is None:
        return {"data": None}
    scores, costs = ([one["title"] for one in data[key]] for key in ("metrics", "costs"))
    menus = {"scores": scores, "costs": costs, "datasets": data["datasets"]}
    return {"data": data, **{name: list(enumerate(titles)) for name, titles in menus.items()}}


def cost_cell(cost: Cost, group: Configuration) -> ViewCell:
    """Returns one cost."""
    summary = cost.of(group)
    return ViewCell() if summary is None else ViewCell(cost.write(summary.center), summary.center)


def status(group: Configuration) -> ViewCell:
    """Returns how many runs there are of each status."""
    text = state_text(group.runs)
    return ViewCell(text, states=tuple(text.split(", ")))


@dataclass(frozen=True)
class Cost:
    """One column of costs.

    Args:
        name: its heading.
        title: the name in full, for axes.
        kind: what its axis shows: count, memory or duration.
        key: the entry of `record.json`.
        inside: the mapping that holds the entry, None for the record itself.
        write: how a value is written.
    """

    name: str
    title: str
    kind: str
    key: str
    inside: str | None
    write: Callable[[float], str]

    @property
    def heading(self) -> str:
        """The name in two lines, for narrow columns: `Examples`, `per second`."""
        first, _, last = self.name.replace("/s", " per second").replace("/", " per ").partition(" ")
        return f"{first}\n{last}" if last else f"\n{first}"

    def of(self, group: Configuration) -> Summary | None:
        """Sums the cost up over the runs that count; a zero stands for a cost that was not measured."""
        summary = group.cost(self.key, self.inside)
        return summary if summary and summary.high > 0 else None

    def text(self, group: Configuration) -> str:
        """Writes the cost of a configuration."""
        summary = self.of(group)
        return NOTHING if summary is None else self.write(summary.center)


def flops_text(value: float) -> str:
    """Writes floating point operations with a unit: 3.2 G, 1.4 T."""
    for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"


COSTS = (
    Cost("Parameters", "Parameters", "count", "parameters", None, count_text),
    Cost("Examples/s", "Examples per second", "count", "examples_per_second", "throughput", rate_text),
    Cost(
        "FLOPs/example",
        "Training FLOPs per example",
        "count",
        "training_flops_per_example",
        "throughput",
        flops_text,
    ),
    Cost("Wall time", "Wall time", "duration", "wall_seconds", None, duration_text),
    Cost(
        "Peak memory", "Peak memory", "memory", "peak_memory_mb", None, lambda megabytes: f"{megabytes / 1000:.1f} GB"
    ),
)


def recorded_costs(groups: Sequence[Configuration]) -> tuple[Cost, ...]:
    """Returns the costs that any of the configurations recorded."""
    return tuple(cost for cost in COSTS if any(cost.of(group) for group in groups))
