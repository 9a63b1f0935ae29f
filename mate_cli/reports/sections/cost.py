"""What each configuration cost, and what became of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mate_cli.reports.compare.costs import Cost, recorded_costs
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.report import Report, state_text
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
