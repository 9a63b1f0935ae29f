"""Settings that configurations share, and those that differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mate_cli.reports.compare.config_difference import Comparison, Difference
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.run_settings import settings
from mate_cli.reports.format import plural
from mate_cli.reports.view import ReportSection
from mate_cli.runs.identity import ABSENT

MAX_COLUMNS, MAX_SETTINGS, MAX_COMMON = 10, 60, 200


def report_section(report: Report, *, wide: bool) -> ReportSection:
    """Return a table of differing settings per dataset and task, and the settings that all runs share."""

    def content() -> Mapping[str, Any] | None:
        parts = [comparison_content(part) for part in report.comparisons if part.common or part.differences]
        shared = shared_settings(report)
        title = f"{plural(len(shared), 'setting')} that all runs share"
        section = {"parts": parts, "shared": list(shared.items())[:MAX_COMMON], "shared_title": title}
        return section if parts or shared else None

    return ReportSection("settings", "Settings that differ", "Settings", template="settings.html", content=content)


def comparison_content(comparison: Comparison) -> Mapping[str, Any]:
    """Return one dataset and task: what its configurations share in words, then a row per setting they do not."""
    labels = comparison.labels[:MAX_COLUMNS]
    hints = [
        count_line(len(comparison.labels), "configuration", MAX_COLUMNS),
        count_line(len(comparison.differences), "setting", MAX_SETTINGS),
    ]
    shown = comparison.differences[:MAX_SETTINGS]
    return {
        "title": comparison.title,
        "hint": ", ".join(filter(None, hints)),
        "common": comparison.common,
        "several": len(comparison.labels) > 1,
        "labels": labels,
        "rows": [(difference.key, [value_of(difference, label) for label in labels]) for difference in shown],
    }


def value_of(difference: Difference, label: str) -> tuple[str | None, bool]:
    """Return the value of one configuration, None where it has none, and whether no other of several has it."""
    pair = next(((value, labels) for value, labels in difference.values.items() if label in labels), None)
    if pair is None or pair[0] == ABSENT:
        return None, False
    value, labels = pair
    return value, len(labels) == 1 and sum(map(len, difference.values.values())) > 2


def shared_settings(report: Report) -> dict[str, str]:
    """Return every setting that is the same in all runs."""
    every = [settings(run) for run in report.runs]
    first = every[0] if every else {}
    return {key: value for key, value in first.items() if all(values.get(key) == value for values in every)}


def count_line(count: int, noun: str, most: int) -> str:
    """Say how much is shown of how much, empty when everything is."""
    return f"first {most} of {plural(count, noun)}" if count > most else ""
