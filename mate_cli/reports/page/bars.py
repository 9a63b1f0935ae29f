"""Scores as bars that need no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.report import Report
from mate_cli.reports.format import center_text, spread_text
from mate_cli.reports.page.page_data import PublishedFigure, blocks_of, references, score_names
from mate_cli.reports.plots.figures import MAX_BARS, score_bars
from mate_cli.reports.plots.metric_bars import Bar
from mate_cli.reports.view import ReportSection, sentences


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


def report_section(report: Report, *, wide: bool) -> ReportSection:
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
