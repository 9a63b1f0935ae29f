"""The page's summary cards and tables of numbers."""

from __future__ import annotations

from collections.abc import Mapping

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.report import Report, state_text
from mate_cli.reports.compare.statistics import Summary
from mate_cli.reports.compare.tables import dataset_of
from mate_cli.reports.format import NOTHING, center_text, duration_text, plural, rate_text, spread_text
from mate_cli.reports.html_elements import Markup, element
from mate_cli.reports.page.bars import BarCell, track
from mate_cli.reports.plots.style import as_svg, paint_of
from mate_cli.reports.view import Column, Row, View, ViewCell

MINUS = "\u2212"


def cards(report: Report) -> Markup:
    """Returns the summary: how many runs, the best, the fastest, the time spent."""
    seconds = [value for run in report.runs if (value := run.number("wall_seconds")) is not None and run.parent is None]
    return element(
        "section",
        summary_card("Runs", str(len(report.runs)), state_text(report.runs)),
        best_card(report),
        fastest_card(report),
        summary_card("Compute time", duration_text(sum(seconds)) if seconds else NOTHING, "wall time of all runs"),
        class_="cards",
    )


def summary_card(name: str, value: object, detail: object) -> Markup:
    """Returns one card."""
    return element("div", element("p", name), element("p", value, class_="value"), element("p", detail), class_="card")


def best_card(report: Report) -> Markup:
    """Returns the winner by the main metric."""
    if report.metric is None or (summary := report.groups[0].summary(report.metric)) is None:
        return summary_card("Best", NOTHING, "no finished run has a metric")
    metric = MetricName.parse(report.metric)
    best = report.groups[0]
    several = len({dataset_of(group) for group in report.groups}) > 1
    place = f" on {dataset_of(best)}" if several and dataset_of(best) else ""
    spread = spread_text(summary, metric)
    shown = [center_text(summary, metric), element("small", f" ±{spread}") if spread else None]
    return summary_card(f"Best {metric.title}{place}", shown, best.label)


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


def view_elements(view: View, name: str, *, titled: bool = True, sortable: bool = True) -> list[Markup]:
    """Returns a table with its notes, and its figures.

    Args:
        view: what it shows.
        name: what the figures' own ids begin with.
        titled: with its title above it.
        sortable: by a click on a heading.
    """
    parts = []
    if view.rows:
        parts.append(page_table(view, titled=titled, sortable=sortable))
    elif titled:
        parts.append(element("h3", view.title))
    for place, figure in enumerate(view.figures() if view.figures else ()):
        parts.append(element("figure", Markup(as_svg(figure, f"{name}-{place}"))))
    return parts


def page_table(view: View, *, titled: bool, sortable: bool) -> Markup:
    """Returns a table, a heading line per level of groups; rows that are no configurations stand at its foot."""
    drawn = {place: widest_end(view, place) for place in range(len(view.columns))}
    lines = []
    for level in range(view.levels):
        groups = [
            element("th", group or None, colspan=span, class_=None if group else "blank", scope="colgroup")
            for group, span in view.spans(level)
        ]
        lines.append(element("tr", element("th", "", class_="blank"), groups))
    heads = [column_heads(column, drawn=drawn[place]) for place, column in enumerate(view.columns)]
    lines.append(element("tr", element("th", view.head, scope="col"), heads, class_="sort" if sortable else None))
    top = max(
        (cell.value + (cell.spread_value or 0) for row in view.rows for cell in row.cells if cell.value), default=1
    )
    body = [view_row(row, view, drawn, top) for row in view.rows if row.kind in ("", "bound")]
    foot = [view_row(row, view, drawn, top) for row in view.rows if row.kind not in ("", "bound")]
    table = element(
        "table",
        element("caption", element("span", view.title)) if titled else None,
        element("thead", lines),
        element("tbody", body),
        element("tfoot", foot) if foot else None,
        class_="subsets" if view.bars else None,
    )
    notes = element("p", "; ".join(view.notes), class_="note") if view.notes else None
    return element("div", table, notes, class_="scroll")


def column_heads(column: Column, *, drawn: float) -> list[Markup]:
    """Returns the heading of a column, and of the intervals drawn beside it."""
    over, _, under = column.heading.rpartition("\n")
    text = [over, element("br"), under] if over or "\n" in column.heading else under
    kind = "number" if column.is_number else None
    better = "less" if column.less_is_better else None
    head = element("th", text, class_=kind, scope="col", data_better=better)
    return [head, element("th", scope="col")] if drawn else [head]


def view_row(row: Row, view: View, drawn: Mapping[int, float], top: float) -> Markup:
    """Returns a line; of papers, what they have no figure of stays empty."""
    tag = element("small", row.kind) if row.kind == "published" else None
    swatch = element("i", class_="swatch", style=f"--paint:{paint_of(row.place)}") if view.bars else None
    cells = [
        bar_cells(cell, column, top, row.place)
        if view.bars
        else view_cell(cell, column, drawn[place], quiet=row.kind == "published")
        for place, (cell, column) in enumerate(zip(row.cells, view.columns, strict=True))
    ]
    marked = any(cell.mark in ("better", "worse") for cell in row.cells)
    kind = "nothing" if row.kind == "bound" else "significant" if marked else row.kind
    return element("tr", element("th", swatch, row.short or row.label, tag, scope="row"), cells, class_=kind or None)


def view_cell(cell: ViewCell, column: Column, widest: float, *, quiet: bool) -> list[Markup]:
    """Returns a cell, and beside it the interval drawn where the column has any."""
    beside = [element("td", interval(cell, widest), aria_hidden="true")] if widest else []
    if cell.states:
        return [element("td", [pill(state.split()[-1], state) for state in cell.states]), *beside]
    if cell.text == NOTHING:
        return [element("td", "" if quiet else NOTHING, class_="number nothing"), *beside]
    details = [f" ±{cell.spread}"] * bool(cell.spread) + [f" {cell.detail}"] * bool(cell.detail)
    text = cell.text.replace("-", MINUS) if cell.has_minus else cell.text
    shown = element("span", text, [element("small", detail) for detail in details])
    kind = " ".join(filter(None, ["number" if column.is_number else "", cell.mark]))
    value = None if cell.value is None else f"{cell.value:.8g}"
    return [element("td", shown, class_=kind or None, title=cell.hover or None, data_value=value), *beside]


def bar_cells(cell: ViewCell, column: Column, top: float, place: int) -> Markup:
    """Returns a number over its bar; on a narrow screen `data-name` says what it is."""
    name = column.title.partition("\n")[0]
    if cell.value is None:
        return element("td", NOTHING, class_="number nothing", data_name=name)
    spread = element("small", f" ±{cell.spread}") if cell.spread else None
    bar = track(BarCell(cell.value, cell.text, cell.spread_value), top, (), paint_of(place))
    shown = element("span", cell.text, spread)
    return element("td", shown, bar, class_="number", data_value=f"{cell.value:.8g}", data_name=name)


def widest_end(view: View, place: int) -> float:
    """Returns how far from nothing any interval of a column reaches, 0 where it has none."""
    ends = [end for row in view.rows if row.cells[place].ends for end in row.cells[place].ends or ()]
    return (max(map(abs, ends)) or 1.0) if ends else 0.0


def interval(cell: ViewCell, widest: float) -> Markup | None:
    """Draws an interval around the line of no difference in the middle."""
    if cell.ends is None or cell.value is None:
        return None
    left, right, middle = (50 + 50 * value / widest for value in (*cell.ends, cell.value))
    return element(
        "span",
        element("i", class_="zero"),
        element("i", class_="whisker", style=f"left:{left:.1f}%;width:{right - left:.1f}%"),
        element("i", class_="dot", style=f"left:{middle:.1f}%"),
        class_="interval",
    )


def pill(status: str, text: str) -> Markup:
    """Returns one coloured pill."""
    return element("span", text, class_=f"pill {status}")


def count_line(count: int, noun: str, most: int) -> str:
    """Says how much is shown of how much, empty when everything is."""
    return f"first {most} of {plural(count, noun)}" if count > most else ""
