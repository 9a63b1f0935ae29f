"""The page's summary cards: how many runs, the best, the fastest, the time spent."""

from __future__ import annotations

from typing import NamedTuple

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.report import Report, state_text
from mate_cli.reports.compare.tables import dataset_of
from mate_cli.reports.format import NOTHING, center_text, duration_text, rate_text, spread_text


class Card(NamedTuple):
    """A number in large print, with what it is above and below."""

    name: str
    value: str
    detail: str
    small: str = ""
    unit: str = ""


def summary_cards(report: Report) -> list[Card]:
    """Return the cards in the order shown."""
    seconds = [value for run in report.runs if (value := run.number("wall_seconds")) is not None and run.parent is None]
    return [
        Card("Runs", str(len(report.runs)), state_text(report.runs)),
        best_card(report),
        fastest_card(report),
        Card("Compute time", duration_text(sum(seconds)) if seconds else NOTHING, "wall time of all runs"),
    ]


def best_card(report: Report) -> Card:
    """Return the winner by the main metric."""
    best = report.groups[0]
    if report.ranked_by is None or (summary := best.summary(report.ranked_by)) is None:
        return Card("Best", NOTHING, "no finished run has a score on dev")
    metric = MetricName.parse(report.ranked_by)
    several = len({dataset_of(group) for group in report.groups}) > 1
    place = f" on {dataset_of(best)}" if several and dataset_of(best) else ""
    spread = spread_text(summary, metric)
    return Card(
        f"Best {metric.title}{place}", center_text(summary, metric), best.label, f" ±{spread}" if spread else ""
    )


def fastest_card(report: Report) -> Card:
    """Return the configuration with the most examples per second."""
    known = ((group.cost("examples_per_second", "throughput"), group.label) for group in report.groups)
    speeds = [(speed.center, label) for speed, label in known if speed is not None]
    if not speeds:
        return Card("Fastest", NOTHING, "no speed recorded")
    fastest, label = max(speeds)
    return Card("Fastest", rate_text(fastest), label, unit="examples/s")
