"""What a sweep says of its settings: the score of every run against each of them, and how much each tells."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.grouping import IGNORED, TARGET, Configuration, differing_settings, settings
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.tables import dataset_of
from mate_cli.reports.html_elements import Markup, element
from mate_cli.reports.plots.style import paint_of

FEWEST_RUNS, MOST_PANELS, MOST_VALUES, FAR = 4, 6, 8, 10
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 440, 200, 40, 428, 10, 165


class Scored(NamedTuple):
    """A run: the place and the label of its configuration, its settings, and its score as it is printed."""

    place: int
    label: str
    settings: Mapping[str, str]
    score: float


class SettingPanel(NamedTuple):
    """Settings that take turns together, the value of each run, and the share of the variance that they explain."""

    keys: tuple[str, ...]
    values: tuple[str, ...]
    importance: float


def sweep_section(report: Report) -> Markup | None:
    """Returns a plot for each setting that was varied, the most telling first; None where too few runs are scored."""
    if not report.metric:
        return None
    metric = MetricName.parse(report.metric)
    datasets = dict.fromkeys(map(dataset_of, report.groups))
    parts = [part for name in datasets if (part := of_dataset(report, name, metric, len(datasets) > 1)) is not None]
    if not parts:
        return None
    note = "Each point is a run, in the colour of its configuration; the line joins the means. Explained: the share of"
    note += " the variance of scores that lies between the values of a setting; with few runs, much of it is chance."
    return element(
        "section", element("h2", "Settings and scores"), parts, element("p", note, class_="note"), id="sweep"
    )


def of_dataset(report: Report, dataset: str, metric: MetricName, named: bool) -> Markup | None:
    """Returns the plots of one data set."""
    groups = [(index, group) for index, group in enumerate(report.groups) if dataset_of(group) == dataset]
    runs = [one for index, group in groups for one in scored(index, group, metric)]
    found = panels(runs)
    if not found:
        return None
    title = element("h3", f"{metric.title_with_unit} on {dataset}" if named else metric.title_with_unit)
    return element("div", title, element("div", [drawn(one, runs) for one in found], class_="charts"))


def scored(place: int, group: Configuration, metric: MetricName) -> list[Scored]:
    """Returns the runs of a configuration that have a score; shares are percent."""
    factor = 100 if metric.is_share else 1
    known = [run for run in group.counted if metric.full in run.metrics]
    return [
        Scored(place, group.label, settings(run, (*IGNORED, "name")), factor * run.metrics[metric.full])
        for run in known
    ]


def panels(runs: Sequence[Scored]) -> list[SettingPanel]:
    """Returns the settings that were varied; those whose values change together stand in one."""
    if len(runs) < FEWEST_RUNS:
        return []
    together: dict[tuple[int, ...], list[str]] = {}
    for key in differing_settings([run.settings for run in runs]):
        values = [run.settings.get(key, "") for run in runs]
        kinds = list(dict.fromkeys(values))
        if not key.endswith(TARGET) and "" not in kinds and len(kinds) <= max(MOST_VALUES, len(runs) // 2):
            together.setdefault(tuple(map(kinds.index, values)), []).append(key)
    found = [
        SettingPanel(tuple(keys), tuple(run.settings[keys[0]] for run in runs), explained(places, runs))
        for places, keys in together.items()
    ]
    return sorted(found, key=lambda one: -one.importance)[:MOST_PANELS]


def explained(places: Sequence[int], runs: Sequence[Scored]) -> float:
    """Returns the share of the variance of scores that lies between groups, from 0 to 1."""
    mean = statistics.fmean(run.score for run in runs)
    groups: dict[int, list[float]] = {}
    for place, run in zip(places, runs, strict=True):
        groups.setdefault(place, []).append(run.score)
    between = sum(len(group) * (statistics.fmean(group) - mean) ** 2 for group in groups.values())
    whole = sum((run.score - mean) ** 2 for run in runs)
    return between / whole if whole else 0.0


def drawn(panel: SettingPanel, runs: Sequence[Scored]) -> Markup:
    """Returns one plot."""
    ticks = x_places(panel.values)
    low, high = min(run.score for run in runs), max(run.score for run in runs)
    room = 0.08 * (high - low or 1)

    def y(score: float) -> float:
        return BOTTOM - (score - low + room) / (high - low + 2 * room) * (BOTTOM - TOP)

    lines = [
        element("g", grid_line(y(score)), svg_text(LEFT - 6, y(score) + 4, f"{score:.1f}", "end"))
        for score in dict.fromkeys((low, high))
    ]
    lines += [svg_text(x, BOTTOM + 18, value, "middle") for value, x in ticks.items()]
    means = {
        value: statistics.fmean(run.score for run, own in zip(runs, panel.values, strict=True) if own == value)
        for value in ticks
    }
    path = " ".join(f"{ticks[value]:.1f},{y(mean):.1f}" for value, mean in means.items())
    dots = [
        element(
            "circle",
            element("title", f"{value}: {run.score:.1f}, {run.label}"),
            cx=f"{ticks[value]:.1f}",
            cy=f"{y(run.score):.1f}",
            r=4,
            style=f"fill:{paint_of(run.place)}",
            class_="shape",
        )
        for run, value in zip(runs, panel.values, strict=True)
    ]
    name = " = ".join(panel.keys[:2]) + (f" and {len(panel.keys) - 2} more" if len(panel.keys) > 2 else "")
    said = f"explained {100 * panel.importance:.0f}%"
    line = element("polyline", points=path, class_="range-line")
    box = f"0 0 {WIDTH} {HEIGHT}"
    picture = element("svg", lines, line, dots, viewBox=box, role="img", aria_label=f"{name}, {said}")
    return element("figure", element("figcaption", name, element("small", f" {said}")), picture, class_="chart")


def grid_line(y: float) -> Markup:
    """Returns a horizontal line."""
    return element("line", x1=LEFT, x2=RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="gridline")


def svg_text(x: float, y: float, content: str, anchor: str) -> Markup:
    """Returns words in a plot, shortened to what has room."""
    shown = content if len(content) <= 12 else f"{content[:11]}…"
    return element("text", shown, element("title", content), x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def x_places(values: Sequence[str]) -> dict[str, float]:
    """Returns where each value stands: numbers by size, by their logarithm where they lie far apart; words evenly."""
    kinds = list(dict.fromkeys(values))
    try:
        numbers = {kind: float(kind) for kind in kinds}
    except ValueError:
        numbers = {}
    if not numbers or not all(map(math.isfinite, numbers.values())):
        numbers = {kind: float(place) for place, kind in enumerate(sorted(kinds))}
    low, high = min(numbers.values()), max(numbers.values())
    if low > 0 and high > FAR * low:
        numbers = {kind: math.log(number) for kind, number in numbers.items()}
        low, high = math.log(low), math.log(high)
    inner = (LEFT + 24, RIGHT - 24)
    ordered = sorted(numbers.items(), key=lambda one: one[1])
    return {kind: inner[0] + (number - low) / (high - low or 1) * (inner[1] - inner[0]) for kind, number in ordered}
