"""The charts that the page's scripts draw: learning curves, and accuracy against cost."""

from __future__ import annotations

from collections.abc import Sequence

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.report import Report
from mate_cli.reports.html_elements import Markup, data_element, element, options
from mate_cli.reports.page.page_data import cost_data, curve_data
from mate_cli.reports.plots.figures import MOST_FIGURES, MOST_REPEATS, Drawn, curve_frame, curve_names, read_logs
from mate_cli.reports.plots.learning_curves import learning_curves
from mate_cli.reports.plots.style import as_svg

MOST_CURVES = 24
STILL_CURVES = 8
"""Configurations that are drawn where no script runs, and shown at first where one does."""


def curves_section(report: Report) -> Markup | None:
    """Returns the learning curves, for the scripts to draw; without them one picture remains."""
    drawn = read_logs(report, most=MOST_CURVES)
    names = curve_names(drawn)
    if not names:
        return None
    data = curve_data(report, drawn)
    total = len(report.groups)
    hint = f"best {MOST_CURVES} of {total} configurations" if total > MOST_CURVES else None
    note = f"At most {MOST_FIGURES} metrics and {MOST_REPEATS} runs of a configuration. "
    note += "Numbers appear under the pointer, or with the arrow keys on a chart."
    return element(
        "section",
        element("h2", "Learning curves", element("small", hint) if hint else None),
        curve_controls(data["datasets"], lines=any(any(metric["lines"]) for metric in data["metrics"])),
        element("div", class_="legend script", id="curve-legend", role="group", aria_label="Configurations"),
        element(
            "details", element("summary", "Single runs"), element("div", id="curve-runs"), class_="script runs-menu"
        ),
        element("div", class_="charts", id="curve-charts", data_first=STILL_CURVES),
        element("noscript", still_curves(drawn, names)),
        element("p", note, class_="note script"),
        data_element("curve-data", data),
        id="curves",
    )


def curve_controls(datasets: Sequence[str], *, lines: bool) -> Markup:
    """Returns the controls above the curves."""
    axes = [("steps", "Steps"), ("epochs", "Epochs"), ("examples", "Examples"), ("seconds", "Wall time")]
    kinds = [("runs", "Every run"), ("mean", "Mean and range of seeds")]
    slider = element("input", type="range", id="curve-smoothing", min=0, max=0.98, step=0.02, value=0)
    return element(
        "div",
        dataset_menu("curve-dataset", datasets),
        element("label", "Across ", element("select", options(axes), id="curve-x"), class_="control"),
        element("label", "Draw ", element("select", options(kinds), id="curve-kind"), class_="control"),
        element("label", "Smoothing ", slider, element("output", "0", for_="curve-smoothing"), class_="control"),
        checkbox("curve-log", "Log scale"),
        checkbox("curve-lines", "Published", checked=True) if lines else None,
        element("div", id="curve-metrics", class_="chips", role="group", aria_label="Metrics"),
        class_="controls script",
    )


def checkbox(name: str, text: str, *, checked: bool = False) -> Markup:
    """Returns a box to tick."""
    return element("label", element("input", type="checkbox", id=name, checked=checked), text, class_="control")


def still_curves(drawn: Sequence[Drawn], names: Sequence[str]) -> list[Markup]:
    """Returns a picture of the most telling score, or of the loss without one, for pages without scripts."""
    name = next((one for one in names if MetricName.parse(one).is_score), names[0])
    figure = learning_curves(curve_frame(drawn[:STILL_CURVES], name))
    note = f"The best {STILL_CURVES} configurations; with JavaScript runs and metrics can be chosen."
    return [element("figure", Markup(as_svg(figure, "still"))), element("p", note, class_="note")]


def cost_chart(report: Report) -> list[Markup]:
    """Returns a score against a cost of choice, for the scripts to draw; nothing where no configuration has both."""
    data = cost_data(report)
    if data is None:
        return []
    scores = [(str(index), metric["title"]) for index, metric in enumerate(data["metrics"])]
    costs = [(str(index), cost["title"]) for index, cost in enumerate(data["costs"])]
    controls = element(
        "div",
        element("label", "Score ", element("select", options(scores), id="cost-score"), class_="control"),
        element("label", "Cost ", element("select", options(costs), id="cost-cost"), class_="control"),
        dataset_menu("cost-dataset", data["datasets"]),
        checkbox("cost-log", "Log scale"),
        class_="controls script",
    )
    chart = element("div", class_="charts one script", id="cost-chart")
    return [controls, chart, data_element("cost-data", data)]


def dataset_menu(name: str, datasets: Sequence[str]) -> Markup:
    """Returns the menu of data sets, hidden where there is no choice."""
    choices = [(str(index), dataset) for index, dataset in enumerate(datasets)]
    menu = element("select", options(choices), id=name)
    return element("label", "Data set ", menu, class_="control", hidden=len(datasets) < 2)
