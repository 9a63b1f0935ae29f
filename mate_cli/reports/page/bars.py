"""Bars made of table cells: they need no script, grow with the window, and are read aloud as the numbers they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.statistics import Summary, is_finite
from mate_cli.reports.compare.tables import dataset_of
from mate_cli.reports.format import center_text, spread_text
from mate_cli.reports.html_elements import Markup, element, options
from mate_cli.reports.page.page_data import PublishedFigure, datasets_of, references, score_names
from mate_cli.reports.plots.figures import MOST_BARS
from mate_cli.reports.plots.style import paint_of


@dataclass(frozen=True)
class BarCell:
    """One bar: its length, what is printed, its whisker (both ends) and its dots; all in the metric's own unit."""

    value: float
    text: str
    spread: float | None = None
    dots: tuple[float, ...] = ()
    detail: str = ""

    @property
    def end(self) -> float:
        """How far to the right anything is drawn."""
        return max(self.value + (self.spread or 0.0), *self.dots, 0.0)


def bars_section(report: Report) -> Markup | None:
    """Draws scores as bars; the reader chooses which, the main metric comes first."""
    names = score_names(report)
    if not names:
        return None
    blocks = [bar_block(report, name, hidden=name != names[0]) for name in names]
    chooser = element("label", "Metric ", metric_select(names, "bar-metric"), class_="control script")
    hint = f"best {MOST_BARS} of {len(report.groups)}" if len(report.groups) > MOST_BARS else None
    heading = element("h2", "Scores", element("small", hint) if hint else None)
    lines = ["Whiskers: the spread over seeds. Dots: single runs."] if "whisker" in "".join(blocks) else []
    lines += ["Outlined bars and dashed lines: published figures."] if "hollow" in "".join(blocks) else []
    note = element("p", " ".join(lines), class_="note") if lines else None
    return element("section", element("div", heading, chooser, class_="bar"), blocks, note, id="chart")


def metric_select(names: Sequence[str], name: str) -> Markup:
    """Returns a menu of metrics."""
    return element("select", options([(full, MetricName.parse(full).title) for full in names]), id=name)


def bar_block(report: Report, name: str, *, hidden: bool) -> Markup:
    """Returns the bars of one metric, a table per data set."""
    tables = [bar_list(report, MetricName.parse(name), dataset) for dataset in datasets_of(report)]
    return element("div", tables, data_metric=name, hidden=hidden)


def bar_list(report: Report, metric: MetricName, dataset: str) -> Markup | None:
    """Returns the bars of one metric on one data set, best first, with published figures below."""
    cells = [
        (index, group.label, bar_cell(group, metric))
        for index, group in enumerate(report.groups[:MOST_BARS])
        if dataset_of(group) == dataset
    ]
    known = [(index, label, cell) for index, label, cell in cells if cell is not None]
    if not known:
        return None
    known.sort(key=lambda one: -(metric.direction or 1) * one[2].value)
    lines = references(report, metric.full, dataset)
    top = highest([cell for *_, cell in known], lines)
    rows = [bar_row(label, cell, top, lines, paint_of(index)) for index, label, cell in known]
    rows += [reference_row(line, metric, top, lines) for line in lines]
    head = element("thead", element("tr", [element("th", text) for text in ("Configuration", metric.title, "Value")]))
    place = f" on {dataset}" if len(datasets_of(report)) > 1 else ""
    caption = element("caption", metric.title_with_unit, place)
    return element("table", caption, head, element("tbody", rows), class_="bars")


def highest(cells: Sequence[BarCell], lines: Sequence[PublishedFigure]) -> float:
    """Returns the value at the right edge."""
    return max([cell.end for cell in cells] + [line.value for line in lines] + [0.0]) or 1.0


def bar_cell(group: Configuration, metric: MetricName) -> BarCell | None:
    """Returns a configuration's bar, None when it lacks the metric."""
    if (summary := group.summary(metric.full)) is None:
        return None
    values = tuple(run.metrics[metric.full] for run in group.counted if metric.full in run.metrics)
    dots = tuple(filter(is_finite, values)) if summary.count > 1 else ()
    return BarCell(summary.center, center_text(summary, metric), summary.spread, dots, spread_of(summary, metric))


def spread_of(summary: Summary, metric: MetricName) -> str:
    """Writes ` ±0.4`, empty for a single run."""
    spread = spread_text(summary, metric)
    return f" ±{spread}" if spread else ""


def bar_row(label: str, cell: BarCell, top: float, lines: Sequence[PublishedFigure], paint: str) -> Markup:
    """Returns one line: name, bar, number."""
    return element(
        "tr",
        element("th", element("span", label), scope="row"),
        element("td", track(cell, top, lines, paint), aria_hidden="true"),
        element("td", cell.text, element("small", cell.detail), class_="number"),
    )


def reference_row(line: PublishedFigure, metric: MetricName, top: float, lines: Sequence[PublishedFigure]) -> Markup:
    """Returns the line of a published figure."""
    text = metric.spec.text(line.value)
    return element(
        "tr",
        element("th", element("span", line.label, " ", element("small", "published")), scope="row"),
        element("td", track(BarCell(line.value, text), top, lines, None), aria_hidden="true"),
        element("td", text, class_="number"),
        class_="published",
        title=line.source,
    )


def track(cell: BarCell, top: float, lines: Sequence[PublishedFigure], paint: str | None) -> Markup:
    """Returns a bar with its whisker, its dots and the lines of published figures; None paints an outline only."""
    spread = cell.spread or 0.0
    low, high = max(0.0, cell.value - spread), cell.value + spread
    whisker = element("i", class_="whisker", style=f"left:{along_track(low, top)};width:{along_track(high - low, top)}")
    return element(
        "span",
        element(
            "i", class_="fill", style=f"width:{along_track(cell.value, top)}" + (f";--paint:{paint}" if paint else "")
        ),
        [element("i", class_="line", style=f"left:{along_track(line.value, top)}") for line in lines],
        whisker if spread else None,
        [element("i", class_="dot", style=f"left:{along_track(dot, top)}") for dot in cell.dots],
        class_="track" if paint else "track hollow",
    )


def along_track(value: float, top: float) -> str:
    """Writes how far along the track a value lies."""
    return f"{max(0.0, min(100.0, 100 * value / top)):.2f}%"
