"""Scores as bars that need no script, and what the page's scripts are told of scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.configuration import known_metrics
from mate_cli.reports.compare.report import Report, preference
from mate_cli.reports.compare.statistics import Summary, is_finite
from mate_cli.reports.compare.tables import published_results
from mate_cli.reports.format import center_text, spread_text
from mate_cli.reports.plots.style import GRID, INK, color_of, literal_text, new_figure
from mate_cli.reports.view import ReportSection, sentences

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LINES, MAX_SCORES = 3, 12


@dataclass(frozen=True)
class PublishedFigure:
    """A published figure, a fraction, as it is printed, and the place it was read in."""

    label: str
    value: float
    text: str
    source: str


def blocks_of(report: Report) -> dict[str, str]:
    """Return the data set of each block of configurations that were asked the same questions, most runs first."""
    return {group.block: group.dataset for group in report.groups}


def references(report: Report, metric: str, dataset: str) -> list[PublishedFigure]:
    """Return published figures for a metric on a data set: of the models compared, else the best."""
    rows = published_results(dataset) if report.published else ()
    spec = MetricName.parse(metric).spec
    ranked = sorted((o for o in rows if metric in o.metrics), key=lambda o: -(spec.direction or 1) * o.metrics[metric])
    models = {run.setting("model") for run in report.runs}
    best = {row.model: row for row in reversed(ranked) if row.model in models}  # of a model the best, not its ablations
    lines = [row for row in ranked if best.get(row.model) is row][:MAX_LINES] or ranked[:1]
    return [PublishedFigure(row.label, (value := row.metrics[metric]), spec.text(value), row.source) for row in lines]


def metric_data(report: Report, metric: MetricName) -> dict[str, Any]:
    """Return how a metric is named and printed, and its published figures: one list per block."""
    lines = [
        [[line.label, round_value(line.value, metric)] for line in references(report, metric.full, dataset)]
        for dataset in blocks_of(report).values()
    ]
    shown = {"title": metric.title, "percent": metric.is_share, "direction": metric.direction}
    return {"name": metric.full, **shown, "lines": lines}


def round_value(value: float, metric: MetricName) -> float:
    """Round to what can be seen: a hundredth of a percent point, else four digits."""
    return round(value, 4) if metric.is_share else float(f"{value:.4g}")


def score_names(report: Report) -> list[str]:
    """List the metrics a reader can choose: the main one, then scores of all questions, the most telling first."""
    names = {name for name in known_metrics(report.groups) if MetricName.parse(name).is_score}
    ordered = sorted(names, key=lambda name: (bool(MetricName.parse(name).part), *preference(name)))
    main = [report.metric] if report.metric else []
    return (main + [name for name in ordered if name not in main])[:MAX_SCORES]


@dataclass(frozen=True)
class BarList:
    """The bars of one metric on one data set, with published figures below."""

    title: str
    metric: MetricName
    rows: Sequence[Bar]
    lines: Sequence[PublishedFigure]

    @property
    def top(self) -> float:
        """The value at the right edge."""
        ends = [row.summary.center + (row.summary.spread or 0.0) for row in self.rows]
        dots = [dot for row in self.rows for dot in row.dots]
        return max([*ends, *dots, *(line.value for line in self.lines), 0.0]) or 1.0

    def texts(self, bar: Bar) -> tuple[str, str]:
        """Return the value of a bar and its spread as they are printed."""
        return center_text(bar.summary, self.metric), spread_text(bar.summary, self.metric)


def scores_section(report: Report, *, wide: bool) -> ReportSection:
    """Return scores as bars that need no script; the reader chooses which, the main metric comes first."""
    hint = f"best {MAX_BARS} of {len(report.groups)}" if len(report.groups) > MAX_BARS else ""

    def content() -> Mapping[str, Any] | None:
        names = score_names(report)
        blocks = [(name, list(bar_lists(report, MetricName.parse(name)))) for name in names]
        lists = [bar_list for _, block in blocks for bar_list in block]
        has_spread = any(bar.summary.spread for bar_list in lists for bar in bar_list.rows)
        notes = ["whiskers: the spread over seeds", "dots: single runs"] * has_spread
        notes += ["outlined bars and dashed lines: published figures"] * any(bar_list.lines for bar_list in lists)
        menu = [(name, MetricName.parse(name).title) for name in names]
        return {"blocks": blocks, "menu": menu, "note": sentences(notes)} if names else None

    return ReportSection("chart", "Scores", "Scores", hint=hint, template="scores.html", content=content)


def bar_lists(report: Report, metric: MetricName) -> Iterator[BarList]:
    """Yield the bars of one metric, a list per block; best first, of a test split in the report's order."""
    bars = score_bars(report, metric.full)
    blocks = blocks_of(report)
    for block, dataset in blocks.items():
        known = [bar for bar in bars if bar.block == block]
        if not known:
            continue
        if metric.split != "test":
            known.sort(key=lambda bar: -(metric.direction or 1) * bar.summary.center)
        title = metric.title_with_unit + (f" on {block}" if len(blocks) > 1 else "")
        yield BarList(title, metric, known, references(report, metric.full, dataset))


MAX_BARS = 30


@dataclass(frozen=True)
class Bar:
    """One configuration, in the metric's own unit.

    Args:
        label: its name.
        place: among all configurations, which is that of its colour.
        block: that it is ranked in.
        summary: of the values.
        values: of single runs.
    """

    label: str
    place: int
    block: str
    summary: Summary
    values: tuple[float, ...]

    @property
    def dots(self) -> tuple[float, ...]:
        """The values, where there are several."""
        return self.values if self.summary.count > 1 else ()


def metric_bars(metric: MetricName, bars: Sequence[Bar]) -> Figure:
    """Draw horizontal bars, the first on top; the axis of a score begins at zero, so that lengths compare."""
    figure, axes = new_figure(9.4, 0.75 + 0.36 * max(len(bars), 2))
    scale = metric.scale
    for index, bar in enumerate(bars):
        draw_bar(axes, index, bar, metric, scale)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_yticks(range(len(bars)), [literal_text(short(bar.label)) for bar in bars])
    highest = max((bar.summary.high for bar in bars), default=1.0) * scale
    axes.set_xlim(min(0.0, min((bar.summary.low for bar in bars), default=0.0) * scale), (highest * 1.14) or 1.0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(literal_text(metric.title_with_unit), color=INK)
    return figure


def draw_bar(axes: Axes, index: int, bar: Bar, metric: MetricName, scale: float) -> None:
    """Draw one bar with its error bar, its runs and its number."""
    center, spread = bar.summary.center * scale, (bar.summary.spread or 0.0) * scale
    patch = axes.barh(index, center, height=0.62, color=color_of(bar.place), alpha=0.85)[0]
    patch.set_gid(f"bar-g{index}")
    if spread:
        axes.errorbar(center, index, xerr=spread, color=INK, linewidth=1.1, capsize=3.5)
    if bar.dots:
        axes.scatter([dot * scale for dot in bar.dots], [index] * len(bar.dots), s=6, color=INK, alpha=0.5, zorder=3)
    end = max(center + spread, bar.summary.high * scale, 0.0)
    axes.annotate(
        center_text(bar.summary, metric),
        (end, index),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        fontweight="bold",
        color=INK,
    )
    axes.axvline(0, color=GRID, linewidth=1)


def short(label: str, longest: int = 46) -> str:
    """Cut a long name in its middle, so that the bars keep their room and the end still tells it apart."""
    start = longest // 3
    return label if len(label) <= longest else f"{label[:start]}…{label[start + 1 - longest :]}"


def score_bars(report: Report, metric: str) -> list[Bar]:
    """Return the bars of a metric in the order of the report, in the colours of the curves."""
    drawn = []
    for place, group in enumerate(report.groups[:MAX_BARS]):
        if (summary := group.summary(metric)) is not None:
            values = (run.metrics.get(metric, math.nan) for run in group.counted)
            drawn.append(Bar(group.label, place, group.block, summary, tuple(filter(is_finite, values))))
    return drawn
