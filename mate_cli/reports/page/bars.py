"""Scores as bars made of table cells: they need no script, grow with the window, and are read aloud as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.statistics import is_finite
from mate_cli.reports.compare.tables import dataset_of
from mate_cli.reports.format import center_text, spread_text
from mate_cli.reports.page.page_data import PublishedFigure, datasets_of, references, score_names
from mate_cli.reports.plots.figures import MAX_BARS
from mate_cli.reports.view import ReportSection, sentences


@dataclass(frozen=True)
class ScoreBar:
    """The bar of a configuration, in the metric's own unit.

    Args:
        label: of the configuration.
        place: of the configuration among all, which is that of its colour.
        value: its length.
        text: the value as printed.
        spread: of its whisker, to both sides.
        dots: single runs.
        detail: the spread as printed.
    """

    label: str
    place: int
    value: float
    text: str
    spread: float | None
    dots: tuple[float, ...]
    detail: str

    @property
    def end(self) -> float:
        """The right end of all random choices."""
        return max(self.value + (self.spread or 0.0), *self.dots, 0.0)


@dataclass(frozen=True)
class BarList:
    """The bars of one metric on one data set, with published figures below."""

    title: str
    metric: str
    rows: tuple[ScoreBar, ...]
    lines: tuple[PublishedFigure, ...]

    @property
    def top(self) -> float:
        """The value at the right edge."""
        return max([row.end for row in self.rows] + [line.value for line in self.lines] + [0.0]) or 1.0


def report_section(report: Report, *, wide: bool) -> ReportSection:
    """Draw scores as bars; the reader chooses which, the main metric comes first."""
    hint = f"best {MAX_BARS} of {len(report.groups)}" if len(report.groups) > MAX_BARS else ""

    def content() -> Mapping[str, Any] | None:
        names = score_names(report)
        blocks = [(name, list(bar_lists(report, MetricName.parse(name)))) for name in names]
        lists = [one for _, found in blocks for one in found]
        notes = ["whiskers: the spread over seeds", "dots: single runs"] * any(r.spread for b in lists for r in b.rows)
        notes += ["outlined bars and dashed lines: published figures"] * any(one.lines for one in lists)
        menu = [(name, MetricName.parse(name).title) for name in names]
        return {"blocks": blocks, "menu": menu, "note": sentences(notes)} if names else None

    return ReportSection("chart", "Scores", "Scores", hint=hint, template="scores.html", content=content)


def bar_lists(report: Report, metric: MetricName) -> Iterator[BarList]:
    """Yield the bars of one metric, a list per data set; best first, of a test split in the report's order."""
    for dataset in datasets_of(report):
        groups = enumerate(report.groups[:MAX_BARS])
        bars = [score_bar(place, group, metric) for place, group in groups if dataset_of(group) == dataset]
        known = [bar for bar in bars if bar is not None]
        if not known:
            continue
        if metric.split != "test":
            known.sort(key=lambda bar: -(metric.direction or 1) * bar.value)
        title = metric.title_with_unit + (f" on {dataset}" if len(datasets_of(report)) > 1 else "")
        yield BarList(title, metric.title, tuple(known), tuple(references(report, metric.full, dataset)))


def score_bar(place: int, group: Configuration, metric: MetricName) -> ScoreBar | None:
    """Return the bar of a configuration, None when it lacks the metric."""
    if (summary := group.summary(metric.full)) is None:
        return None
    values = tuple(run.metrics[metric.full] for run in group.counted if metric.full in run.metrics)
    dots = tuple(filter(is_finite, values)) if summary.count > 1 else ()
    detail = spread_text(summary, metric)
    return ScoreBar(group.label, place, summary.center, center_text(summary, metric), summary.spread, dots, detail)
