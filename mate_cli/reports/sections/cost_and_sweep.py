"""Report sections of scores against costs, as in the DoT paper, and of sweeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.configuration import Configuration, settings
from mate_cli.reports.compare.names import TARGET
from mate_cli.reports.compare.report import Report, state_text
from mate_cli.reports.compare.statistics import ROUNDING, Summary
from mate_cli.reports.compare.tables import PublishedResult, paper_cell, published_results
from mate_cli.reports.format import count_text, duration_text, flops_text, rate_text
from mate_cli.reports.sections.results import blocks_of, group_data, list_scores, metric_data, score_cell
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell, sentences
from mate_cli.runs.identity import SEED_REPEAT_KEYS, differing_keys

MAX_POINTS = 40
"""Maximum number of configurations in the plot of a score against a cost."""


class Cost(NamedTuple):
    """A cost that runs record, such as peak memory, shown as a column of the cost table.

    Args:
        name: heading of the column.
        heading: two-line heading for narrow columns.
        title: axis title.
        kind: axis type: count, memory or duration.
        key: name of the entry in `record.json`.
        inside: mapping in the record that contains the entry, None for the record itself.
        write: function that formats a value.
    """

    name: str
    heading: str
    title: str
    kind: str
    key: str
    inside: str | None
    write: Callable[[float], str]

    def of(self, group: Configuration) -> Summary | None:
        """Summarize a cost, such as peak memory, over all runs of a configuration.

        Return None if the cost was not measured (recorded as 0).
        """
        if group.is_untrained and self.inside is None:
            # The cost of an external system would be the cost of scoring its answers.
            return None
        summary = group.cost(self.key, self.inside)
        return summary if summary and summary.high > 0 else None

    def cell(self, group: Configuration) -> ViewCell:
        """Build the table cell that shows the cost of a configuration."""
        summary = self.of(group)
        return ViewCell.of(summary.center if summary else None, self.write)


RATE, WORK, PRICE = "examples_per_second", "training_flops_per_example", "cost_per_question"
COSTS = (
    Cost("Parameters", "\nParameters", "Parameters", "count", "parameters", None, count_text),
    Cost("Examples/s", "Examples\nper second", "Examples per second", "count", RATE, "throughput", rate_text),
    Cost("FLOPs/example", "FLOPs\nper example", "Training FLOPs per example", "count", WORK, "throughput", flops_text),
    Cost("Wall time", "Wall\ntime", "Wall time", "duration", "wall_seconds", None, duration_text),
    Cost(
        "Peak memory", "Peak\nmemory", "Peak memory", "memory", "peak_memory_mb", None, lambda mb: f"{mb / 1000:.1f} GB"
    ),
    Cost("Cost/question", "Cost per\nquestion", "Stated cost", "count", PRICE, "throughput", "{:.3g}".format),
)


def recorded_costs(groups: Sequence[Configuration]) -> tuple[Cost, ...]:
    """Return the costs, such as peak memory, that at least one configuration has recorded."""
    return tuple(cost for cost in COSTS if any(cost.of(group) for group in groups))


def cost_section(report: Report, *, wide: bool) -> ReportSection:
    """Return size, speed, FLOPs, time and memory of each configuration.

    A cost that no run recorded has no column.

    Args:
        report: comparison of runs.
        wide: not used.
    """
    costs = recorded_costs(report.groups)
    # The footer already counts finished runs.
    status = Column("Status", is_number=False, minor=not report.unfinished)
    columns = (*(Column(cost.name, stacked=cost.heading) for cost in costs), status)
    states = [state_text(group.runs) for group in report.groups]
    rows = tuple(
        Row(group.label, (*(cost.cell(group) for cost in costs), ViewCell(text, states=tuple(text.split(", ")))))
        for group, text in zip(report.groups, states, strict=True)
    )
    view = View("Cost", columns, rows)
    return ReportSection(
        "cost", "Score and cost", "Cost", (view,), template="cost", content=lambda: cost_content(report)
    )


def cost_content(report: Report) -> Mapping[str, Any]:
    """Return the data of the page's plot of scores against costs.

    Configurations without a score or without costs are omitted.

    Returns:
        `data`: values for the script, None if no configuration has both. `scores`, `costs` and `blocks`: entries of the
            menus as (index, title).
    """
    scores = list_scores(report)
    # The number of parameters is the least informative cost, so it comes last.
    costs = sorted(recorded_costs(report.groups), key=lambda cost: cost.key == "parameters")
    blocks, groups = list(blocks_of(report)), []
    for index, group in enumerate(report.groups[:MAX_POINTS]):
        centers = number_pairs(group.summary(metric.full) for metric in scores)
        prices = number_pairs(cost.of(group) for cost in costs)
        if centers and prices:
            groups.append(group_data(report, index) | {"scores": centers, "costs": prices})
    if not groups:
        return {"data": None}
    metrics = [metric_data(report, metric) for metric in scores]
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
    """Convert summaries to {index: [center, spread]} for page scripts, without None.

    Centers have five significant digits, spreads have three.
    """
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
    """Return accuracy against training speed, as in the DoT paper.

    Published results are below the configurations. The result is None if no run has a metric for which papers report
    the training speed.

    Args:
        report: comparison of runs.
        wide: not used.
    """
    views = list(efficiency_views(report)) if report.published else []
    return ReportSection("efficiency", "Accuracy and speed", "Speed", tuple(views), SPEED_NOTES) if views else None


def efficiency_views(report: Report) -> Iterator[View]:
    """Yield a table with the score and training speed of each configuration, by dataset.

    Configurations are above published results.
    """
    for block, dataset in blocks_of(report).items():
        groups = [group for group in report.groups if group.block == block]
        papers = [row for row in published_results(dataset) if row.examples_per_second]
        for metric in map(MetricName.parse, dict.fromkeys(name for row in papers for name in row.best)):
            rows = [*measured_rows(groups, metric), *published_rows(papers, metric)]
            if len(rows) > len(papers):
                columns = (Column(metric.title), Column("Best"), Column("Examples/s"))
                yield View(f"{block}, {metric.split}", columns, tuple(rows))


def measured_rows(groups: Sequence[Configuration], metric: MetricName) -> Iterator[Row]:
    """Yield a row with score and training speed for each configuration that has the metric."""
    for group in groups:
        if summary := group.summary(metric.full):
            rate = group.cost(RATE, "throughput")
            best_score = summary.high if metric.spec.direction >= 0 else summary.low
            yield Row(group.label, speed_cells(metric, summary, best_score, rate.center if rate else None))


def published_rows(papers: Sequence[PublishedResult], metric: MetricName) -> Iterator[Row]:
    """Yield a row with the published score and training speed of each paper's result."""
    for paper in papers:
        if summary := paper_cell(paper, metric.full):
            best_score = paper.best.get(metric.full)
            yield Row(paper.label, speed_cells(metric, summary, best_score, paper.examples_per_second), "published")


def speed_cells(metric: MetricName, summary: Summary, best: float | None, rate: float | None) -> tuple[ViewCell, ...]:
    """Build the cells of a row: score, score of the best run, and training speed.

    Args:
        metric: metric of the scores.
        summary: summary of the score.
        best: score of the best run, None if unknown.
        rate: training examples per second, None if unknown.
    """
    best_cell = ViewCell.of(best, metric.spec.text, metric.spec.scale)
    return score_cell(metric, summary), best_cell, ViewCell.of(rate, rate_text)


MIN_RUNS, MAX_PANELS, MAX_VALUES, MAX_TICK, FAR = 4, 6, 8, 12, 10
MAX_LINES = 500
"""Maximum number of runs that are drawn, selected at even intervals."""
TOP, BOTTOM, HEIGHT, STEP = 40, 195, 205, 150
"""Pixels: top and bottom of an axis, height of the plot, and distance between two axes."""
NOTES = (
    "a line through all axes is a run, the darker the better its score",
    "explained: the share of the variance of scores explained by a setting; with few runs, much of it is noise",
)


class ScoredRun(NamedTuple):
    """A run of a sweep with the label of its configuration, its settings and its score.

    Scores that are shares are in percent.
    """

    label: str
    settings: Mapping[str, str]
    score: float


class SettingPanel(NamedTuple):
    """Axis of a parallel coordinates plot, for one or more settings that vary together.

    Args:
        keys: dotted keys of the settings.
        values: value of each run.
        importance: share of the score variance that the settings explain, from 0 to 1.
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]
    importance: float

    @property
    def name(self) -> str:
        """Name of the axis: its first two settings, and the number of further settings."""
        return " = ".join(self.keys[:2]) + f" and {len(self.keys) - 2} more" * (len(self.keys) > 2)


def sweep_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return the score of each run against the settings of a sweep.

    The result is None if no run has a score.

    Args:
        report: comparison of runs.
        wide: not used.
    """
    if not report.metric:
        return None

    def content() -> Mapping[str, Any] | None:
        parts = list(dataset_plots(report, report.names[report.metric or ""]))
        return {"parts": parts, "note": sentences(NOTES)} if parts else None

    return ReportSection("sweep", "Scores by setting", "Sweep", template="sweep", content=content)


def dataset_plots(report: Report, metric: MetricName) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a title and a parallel coordinates plot of runs for each dataset."""
    blocks = dict.fromkeys(group.block for group in report.groups)
    for block in blocks:
        runs = [run for group in report.groups if group.block == block for run in score_runs(group, metric)]
        if panel_list := panels(runs):
            title = f"{metric.title_with_unit} on {block}" if len(blocks) > 1 else metric.title_with_unit
            yield title, draw_coordinates(panel_list, runs, metric)


def find_varied(report: Report) -> list[str]:
    """Return the settings that vary between scored runs of a sweep, most important first.

    If settings vary together, only the first one of them is listed.
    """
    metric = report.names.get(report.metric or "")
    runs = [run for group in report.groups for run in score_runs(group, metric)] if metric else []
    return [panel.keys[0] for panel in panels(runs)]


def score_runs(group: Configuration, metric: MetricName) -> list[ScoredRun]:
    """Return the runs of a configuration with their scores, for plots of a sweep.

    Fractions are in percent.
    """
    scores = {run: metric.spec.scale * run.metrics[metric.full] for run in group.counted if metric.full in run.metrics}
    ignored = (*SEED_REPEAT_KEYS, "name")
    return [ScoredRun(group.label, settings(run, ignored), score) for run, score in scores.items()]


def panels(runs: Sequence[ScoredRun]) -> list[SettingPanel]:
    """Determine the axes of a parallel coordinates plot: settings that differ between runs.

    Settings that vary together share an axis.

    Returns:
        At most `MAX_PANELS` panels, the most important first. Empty for fewer than `MIN_RUNS` runs.
    """
    if len(runs) < MIN_RUNS:
        return []
    keys_by_pattern: dict[tuple[int, ...], list[str]] = {}
    for key in differing_keys([run.settings for run in runs]):
        values = [run.settings.get(key, "") for run in runs]
        distinct_values = list(dict.fromkeys(values))
        if (
            not key.endswith(TARGET)
            and "" not in distinct_values
            and len(distinct_values) <= max(MAX_VALUES, len(runs) // 2)
        ):
            keys_by_pattern.setdefault(tuple(map(distinct_values.index, values)), []).append(key)
    panel_list = [
        SettingPanel(tuple(keys), tuple(run.settings[keys[0]] for run in runs), explained_variance(pattern, runs))
        for pattern, keys in keys_by_pattern.items()
    ]
    return sorted(panel_list, key=lambda panel: -panel.importance)[:MAX_PANELS]


def explained_variance(places: Sequence[int], runs: Sequence[ScoredRun]) -> float:
    """Compute which share (0 to 1) of the score variance the grouping of runs explains.

    Args:
        places: group index of each run.
        runs: runs with their scores.
    """
    counts, deviations = np.bincount(places), np.array([run.score for run in runs])
    deviations -= deviations.mean()
    deviations[abs(deviations) < ROUNDING] = 0  # The mean of equal scores may differ from them in the last digit.
    total = float((deviations**2).sum())
    return float((np.bincount(places, deviations) ** 2 / counts).sum()) / total if total else 0.0


def draw_coordinates(
    panel_list: Sequence[SettingPanel], runs: Sequence[ScoredRun], metric: MetricName
) -> Mapping[str, Any]:
    """Compute the coordinates of a parallel coordinates plot of runs, for an HTML template.

    Args:
        panel_list: settings to show, one axis each.
        runs: runs to show, one line each.
        metric: metric of the scores.

    Returns:
        `axes`: x, name, explained variance as text, and y and text of each tick. `lines`: points, goodness in percent
            and text of each run, with the best runs last. `top`, `bottom`, `height` and `width`: sizes in pixels.
    """
    scores = [str(run.score) for run in runs]
    columns = [(p.name, f"explained {100 * p.importance:.0f}%", p.values) for p in panel_list]
    columns.append((metric.spec.title, "", tuple(scores)))
    heights = [[round(BOTTOM - share * (BOTTOM - TOP), 1) for share in spread(values)] for *_, values in columns]
    axes = [
        (STEP * (index + 0.5), name, importance, axis_ticks(dict(zip(values, ys, strict=True))))
        for index, ((name, importance, values), ys) in enumerate(zip(columns, heights, strict=True))
    ]
    lines = [
        (
            " ".join(f"{x},{y}" for (x, *_), y in zip(axes, ys, strict=True)),
            round(100 * (share if metric.spec.direction >= 0 else 1 - share)),
            f"{run.label}: {run.score:.1f}",
        )
        for run, share, *ys in zip(runs, spread(scores), *heights, strict=True)
    ]
    shown_lines = sorted(lines[:: -(-len(runs) // MAX_LINES)], key=lambda line: line[1])
    size = {"top": TOP, "bottom": BOTTOM, "height": HEIGHT, "width": STEP * len(axes)}
    return {"axes": axes, "lines": shown_lines, **size}


def spread(values: Sequence[str]) -> list[float]:
    """Return the position (0 to 1) of each run on the axis of a setting."""
    shares = value_shares(values)
    return [shares[value] for value in values]


def axis_ticks(places: Mapping[str, float]) -> list[tuple[float, str]]:
    """Return (y, text) of each tick of a plot axis.

    If the axis has more than `MAX_VALUES` values, only the lowest and the highest get a tick.

    Args:
        places: y of each value.
    """
    sorted_values = sorted(places, key=lambda value: places[value])
    if len(sorted_values) <= MAX_VALUES:
        return [(places[value], text) for value, text in zip(sorted_values, distinct_texts(sorted_values), strict=True)]
    edges = [sorted_values[0], sorted_values[-1]]
    return [
        (places[edge], f"{number_of(edge):.4g}" if number_of(edge) < math.inf else edge[:MAX_TICK]) for edge in edges
    ]


def distinct_texts(texts: Sequence[str]) -> list[str]:
    """Truncate texts to at most `MAX_TICK` characters that still distinguish them.

    The end of each text is omitted, or its start if the truncated texts would be equal otherwise.
    """
    shortened = [text if len(text) <= MAX_TICK else f"{text[: MAX_TICK - 1]}…" for text in texts]
    if len(set(shortened)) == len(texts):
        return shortened
    return [text if len(text) <= MAX_TICK else f"…{text[1 - MAX_TICK :]}" for text in texts]


def value_shares(values: Sequence[str]) -> dict[str, float]:
    """Map each distinct value of a setting to its position (0 to 1) on a plot axis.

    Positions are logarithmic if positive values span more than a factor of `FAR`.

    If some values are text, all values are spaced evenly: numbers by size, then text.
    """
    numbers = {value: number_of(value) for value in values}
    if not all(map(math.isfinite, numbers.values())):
        sorted_values = sorted(numbers, key=lambda value: (number_of(value), value))
        numbers = {value: float(index) for index, value in enumerate(sorted_values)}
    low, high = min(numbers.values()), max(numbers.values())
    if low > 0 and high > FAR * low:
        numbers = {kind: math.log(number) for kind, number in numbers.items()}
        low, high = math.log(low), math.log(high)
    return {value: (number - low) / (high - low or 1) for value, number in numbers.items()}


def number_of(value: str) -> float:
    """Convert a setting to a number for a plot axis, or to infinity if it is text."""
    try:
        number = float(value)
    except ValueError:
        return math.inf
    return number if math.isfinite(number) else math.inf
