"""Scores as bars that need no script, and what the page's scripts are told of scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.report import Report, preference
from mate_cli.reports.compare.tables import published_results
from mate_cli.reports.format import center_text, spread_text
from mate_cli.reports.plots.metric_bars import MAX_BARS, Bar, score_bars
from mate_cli.reports.view import ReportSection, sentences

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
    names = {name for group in report.groups for name in group.metric_names if MetricName.parse(name).is_score}
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
    """Draw scores as bars; the reader chooses which, the main metric comes first."""
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
