"""The score against the settings of a sweep: runs as lines through an axis for each."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.configuration import Configuration, settings
from mate_cli.reports.compare.names import TARGET
from mate_cli.reports.compare.report import Report
from mate_cli.reports.view import ReportSection, sentences
from mate_cli.runs.identity import REPEATED, differing_keys

MIN_RUNS, MAX_PANELS, MAX_VALUES, FAR = 4, 6, 8, 10
MAX_POINTS = 500
"""Runs that are drawn, evenly chosen."""
TOP, BOTTOM, HEIGHT, STEP = 40, 195, 205, 150
"""Pixels: the ends of an axis, the height of all, and the room between two axes."""
NOTES = (
    "a line through all axes is a run, the darker the better its score",
    "explained: the share of the variance of scores explained by a setting; with few runs, much of it is chance",
)


class ScoredRun(NamedTuple):
    """A run: the label of its configuration, its settings, and its score as it is printed."""

    label: str
    settings: Mapping[str, str]
    score: float


class SettingPanel(NamedTuple):
    """Settings that take turns together, the value of each run, and the share of the variance that they explain."""

    keys: tuple[str, ...]
    values: tuple[str, ...]
    importance: float


@dataclass(frozen=True)
class ParallelCoordinates:
    """Runs as lines through an axis for each setting and one for the score, in pixels.

    Args:
        axes: x, the name, how much it tells, and y and text of each tick.
        lines: the points of each run, how good it is in percent, and its words; the best ones last.
    """

    axes: Sequence[tuple[float, str, str, Sequence[tuple[float, str]]]]
    lines: Sequence[tuple[str, float, str]]
    top, bottom, height = TOP, BOTTOM, HEIGHT

    @property
    def width(self) -> int:
        """All of it."""
        return STEP * len(self.axes)


def sweep_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return the score against each setting of a sweep; None where no run has a score."""
    if not report.metric:
        return None

    def content() -> Mapping[str, Any] | None:
        parts = list(dataset_plots(report, MetricName.parse(report.metric or "")))
        return {"parts": parts, "note": sentences(NOTES)} if parts else None

    return ReportSection("sweep", "Scores by setting", "Sweep", template="sweep.html", content=content)


def dataset_plots(report: Report, metric: MetricName) -> Iterator[tuple[str, ParallelCoordinates]]:
    """Yield a title and the plot of each block."""
    blocks = dict.fromkeys(group.block for group in report.groups)
    for block in blocks:
        runs = [run for group in report.groups if group.block == block for run in score_runs(group, metric)]
        if panel_list := panels(runs):
            title = f"{metric.title_with_unit} on {block}" if len(blocks) > 1 else metric.title_with_unit
            yield title, draw_coordinates(panel_list, runs, metric)


def find_varied(report: Report) -> list[str]:
    """Return the settings that were varied, of those that change together the first; the most telling come first."""
    metric = MetricName.parse(report.metric or "")
    runs = [run for group in report.groups for run in score_runs(group, metric)]
    return [panel.keys[0] for panel in panels(runs)]


def score_runs(group: Configuration, metric: MetricName) -> list[ScoredRun]:
    """Return the runs of a configuration that have a score; shares are percent."""
    factor = 100 if metric.is_share else 1
    known = [run for run in group.counted if metric.full in run.metrics]
    return [
        ScoredRun(group.label, settings(run, (*REPEATED, "name")), factor * run.metrics[metric.full]) for run in known
    ]


def panels(runs: Sequence[ScoredRun]) -> list[SettingPanel]:
    """Return the settings that were varied; those whose values change together stand in one."""
    if len(runs) < MIN_RUNS:
        return []
    together: dict[tuple[int, ...], list[str]] = {}
    for key in differing_keys([run.settings for run in runs]):
        values = [run.settings.get(key, "") for run in runs]
        kinds = list(dict.fromkeys(values))
        if not key.endswith(TARGET) and "" not in kinds and len(kinds) <= max(MAX_VALUES, len(runs) // 2):
            together.setdefault(tuple(map(kinds.index, values)), []).append(key)
    panel_list = [
        SettingPanel(tuple(keys), tuple(run.settings[keys[0]] for run in runs), explained_variance(places, runs))
        for places, keys in together.items()
    ]
    return sorted(panel_list, key=lambda panel: -panel.importance)[:MAX_PANELS]


def explained_variance(places: Sequence[int], runs: Sequence[ScoredRun]) -> float:
    """Return the share of the variance of scores that lies between groups, from 0 to 1."""
    mean = statistics.fmean(run.score for run in runs)
    groups: dict[int, list[float]] = {}
    for place, run in zip(places, runs, strict=True):
        groups.setdefault(place, []).append(run.score)
    between = sum(len(group) * (statistics.fmean(group) - mean) ** 2 for group in groups.values())
    whole = sum((run.score - mean) ** 2 for run in runs)
    return between / whole if whole else 0.0


def draw_coordinates(
    panel_list: Sequence[SettingPanel], runs: Sequence[ScoredRun], metric: MetricName
) -> ParallelCoordinates:
    """Draw runs as lines through all settings."""
    scores = [str(run.score) for run in runs]
    columns = [(panel_name(p), f"explained {100 * p.importance:.0f}%", p.values) for p in panel_list]
    columns.append((metric.short, "", tuple(scores)))
    heights = [[round(BOTTOM - share * (BOTTOM - TOP), 1) for share in spread(values)] for *_, values in columns]
    axes = [
        (STEP * (place + 0.5), name, told, axis_ticks(dict(zip(values, ys, strict=True))))
        for place, ((name, told, values), ys) in enumerate(zip(columns, heights, strict=True))
    ]
    lines = [
        (
            " ".join(f"{x},{y}" for (x, *_), y in zip(axes, ys, strict=True)),
            round(100 * (share if metric.direction >= 0 else 1 - share)),
            f"{run.label}: {run.score:.1f}",
        )
        for run, share, *ys in zip(runs, spread(scores), *heights, strict=True)
    ]
    return ParallelCoordinates(axes, sorted(lines[:: -(-len(runs) // MAX_POINTS)], key=lambda line: line[1]))


def panel_name(panel: SettingPanel) -> str:
    """Name the first two settings that take turns together, and how many more there are."""
    return " = ".join(panel.keys[:2]) + (f" and {len(panel.keys) - 2} more" if len(panel.keys) > 2 else "")


def spread(values: Sequence[str]) -> list[float]:
    """Return where the value of each run stands, from 0 to 1."""
    shares = value_shares(values)
    return [shares[value] for value in values]


def axis_ticks(places: Mapping[str, float]) -> list[tuple[float, str]]:
    """Return y and text of the values on an axis; of many the ends alone."""
    ordered = sorted(places, key=lambda value: places[value])
    if len(ordered) <= MAX_VALUES:
        return [(places[value], text) for value, text in zip(ordered, distinct_texts(ordered), strict=True)]
    ends = [ordered[0], ordered[-1]]
    return [(places[end], f"{number_of(end):.4g}" if number_of(end) < math.inf else end[:12]) for end in ends]


def distinct_texts(texts: Sequence[str], most: int = 12) -> list[str]:
    """Shorten texts to so many letters: at the end, or at the beginning where only this tells them apart."""
    ends = [text if len(text) <= most else f"{text[: most - 1]}…" for text in texts]
    if len(set(ends)) == len(texts):
        return ends
    return [text if len(text) <= most else f"…{text[1 - most :]}" for text in texts]


def value_shares(values: Sequence[str]) -> dict[str, float]:
    """Return where each value stands from 0 to 1: numbers by size, by their logarithm where they lie far apart.

    Where some are words, all stand evenly: the numbers by size, then the words.
    """
    numbers = {value: number_of(value) for value in values}
    if not all(map(math.isfinite, numbers.values())):
        ordered = sorted(numbers, key=lambda value: (number_of(value), value))
        numbers = {value: float(place) for place, value in enumerate(ordered)}
    low, high = min(numbers.values()), max(numbers.values())
    if low > 0 and high > FAR * low:
        numbers = {kind: math.log(number) for kind, number in numbers.items()}
        low, high = math.log(low), math.log(high)
    return {value: (number - low) / (high - low or 1) for value, number in numbers.items()}


def number_of(value: str) -> float:
    """Return the number that a value is, infinity for words."""
    try:
        number = float(value)
    except ValueError:
        return math.inf
    return number if math.isfinite(number) else math.inf
