"""The page's summary cards and tables of numbers."""

from __future__ import annotations

from itertools import groupby

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.costs import Cost, recorded_costs
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.statistics import Summary
from mate_cli.reports.compare.tables import Mark, ResultRow, ResultTable, dataset_of
from mate_cli.reports.format import NOTHING, center_text, duration_text, plural, rate_text, spread_text
from mate_cli.reports.html_elements import Markup, element
from mate_cli.reports.runs.load import STATUSES


def cards(report: Report) -> Markup:
    """Returns the summary: how many runs, the best, the fastest, the time spent."""
    seconds = [value for run in report.runs if (value := run.number("wall_seconds")) is not None and run.parent is None]
    return element(
        "section",
        summary_card("Runs", str(len(report.runs)), status_line(report)),
        best_card(report),
        fastest_card(report),
        summary_card("Compute time", duration_text(sum(seconds)) if seconds else NOTHING, "wall time of all runs"),
        class_="cards",
    )


def summary_card(name: str, value: object, detail: object) -> Markup:
    """Returns one card."""
    return element("div", element("p", name), element("p", value, class_="value"), element("p", detail), class_="card")


def status_line(report: Report) -> str:
    """Counts all runs by status."""
    counts = {status: sum(run.status == status for run in report.runs) for status in (*STATUSES, "unknown")}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def best_card(report: Report) -> Markup:
    """Returns the winner by the main metric."""
    if report.metric is None or (summary := report.groups[0].summary(report.metric)) is None:
        return summary_card("Best", NOTHING, "no finished run has a metric")
    metric = MetricName.parse(report.metric)
    best = report.groups[0]
    several = len({dataset_of(group) for group in report.groups}) > 1
    place = f" on {dataset_of(best)}" if several and dataset_of(best) else ""
    return summary_card(f"Best {metric.title}{place}", result_element(summary, metric), best.label)


def fastest_card(report: Report) -> Markup:
    """Returns the configuration with the most examples per second."""
    speeds = [(speed.center, group.label) for group in report.groups if (speed := speed_of(group)) is not None]
    if not speeds:
        return summary_card("Fastest", NOTHING, "no speed recorded")
    fastest, label = max(speeds)
    return summary_card("Fastest", [rate_text(fastest), element("span", " examples/s", class_="unit")], label)


def speed_of(group: Configuration) -> Summary | None:
    """Summarises examples per second."""
    return group.cost("examples_per_second", "throughput")


def result_table(table: ResultTable) -> Markup:
    """Returns one table of results under its own caption, with a heading line per split or part."""
    heads = [
        element("th", column.short, class_="number", scope="col", data_better="less" if column.direction < 0 else None)
        for column in table.columns
    ]
    top = [element("th", name, colspan=span, scope="colgroup") for name, span in heading_spans(table)]
    head = element(
        "thead",
        element("tr", element("th", "", class_="blank"), top, element("th", class_="blank")),
        element(
            "tr", element("th", "Configuration", scope="col"), heads, element("th", "n", class_="number"), class_="sort"
        ),
    )
    body = element("tbody", [result_row(table, row) for row in table.rows])
    last = [result_row(table, row, "baseline") for row in table.baselines]
    last += [result_row(table, row, "published") for row in table.published]
    foot = element("tfoot", last) if last else None
    caption = element("caption", element("span", table.title))
    return element("div", element("table", caption, head, body, foot), class_="scroll")


def heading_spans(table: ResultTable) -> list[tuple[str, int]]:
    """Joins neighbouring columns that share a split, or a part of the questions."""
    parts = any(column.part for column in table.columns) and not table.one_part
    names = [c.part_title if parts else c.split.capitalize() for c in table.columns]
    return [(name, len(list(same))) for name, same in groupby(names)]


def result_row(table: ResultTable, row: ResultRow, kind: str = "") -> Markup:
    """Returns one line of a table of results; `kind` says what a line is that is no configuration, and never marked."""
    cells = [
        result_cell(table.columns[index], cell, "" if kind else table.mark(index, cell), quiet=kind == "published")
        for index, cell in enumerate(row.cells)
    ]
    repeats = element("td", row.repeats or "", class_="number", data_value=row.repeats)
    tag = element("small", kind) if kind == "published" else None
    name = element("th", row.short or row.label, tag, scope="row")
    return element("tr", name, cells, repeats, class_=kind or None)


def result_cell(metric: MetricName, cell: Summary | None, mark: Mark, *, quiet: bool) -> Markup:
    """Returns one number, its exact values on hover; where there is none a dash, or nothing at all when quiet."""
    if cell is None:
        return element("td", "" if quiet else NOTHING, class_="number nothing")
    middle = f"median {cell.median:.5g}, mean {cell.mean:.5g}"
    hover = f"{middle}, lowest {cell.low:.5g}, highest {cell.high:.5g}, n = {cell.count}"
    kind = f"number {mark}".strip()
    return element("td", result_element(cell, metric), class_=kind, title=hover, data_value=f"{cell.center:.8g}")


def result_element(summary: Summary, metric: MetricName) -> Markup:
    """Returns `62.8 ±0.4`, the spread in small."""
    spread = spread_text(summary, metric)
    return element("span", center_text(summary, metric), element("small", f" ±{spread}") if spread else None)


def cost_table(report: Report) -> Markup:
    """Returns what each configuration cost and what became of its runs; what nobody recorded has no column."""
    costs = recorded_costs(report.groups)
    heads = [element("th", cost.name, class_="number", scope="col") for cost in costs]
    status = element("th", "Status", scope="col")
    head = element("tr", element("th", "Configuration", scope="col"), heads, status, class_="sort")
    rows = [
        element(
            "tr",
            element("th", group.label, scope="row"),
            [cost_cell(cost, group) for cost in costs],
            element("td", pills(group)),
        )
        for group in report.groups
    ]
    return element("div", element("table", element("thead", head), element("tbody", rows)), class_="scroll")


def cost_cell(cost: Cost, group: Configuration) -> Markup:
    """Returns one cost."""
    if (summary := cost.of(group)) is None:
        return element("td", NOTHING, class_="number nothing")
    return element("td", cost.write(summary.center), class_="number", data_value=summary.center)


def pills(group: Configuration) -> list[Markup]:
    """Returns a coloured pill per status that occurs."""
    counts = [(status, sum(run.status == status for run in group.runs)) for status in (*STATUSES, "unknown")]
    return [pill(status, f"{count} {status}") for status, count in counts if count]


def pill(status: str, text: str) -> Markup:
    """Returns one coloured pill."""
    return element("span", text, class_=f"pill {status}")


def count_line(count: int, noun: str, most: int) -> str:
    """Says how much is shown of how much, empty when everything is."""
    return f"first {most} of {plural(count, noun)}" if count > most else ""
