"""A comparison as one self-contained HTML page: no network, no other file, readable for years."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mate_cli.files.atomic import write_text
from mate_cli.metrics.specs import MetricName
from mate_cli.reports.all_sections import report_sections
from mate_cli.reports.compare.report import Report, state_text
from mate_cli.reports.format import NOTHING, center_text, duration_text, plural, rate_text, spread_text
from mate_cli.reports.html_page import Card, render_template
from mate_cli.reports.runs.load import LoadedRuns
from mate_cli.reports.view import ReportSection

CHARTS = ("chart.js", "curve_lines.js", "curve_chart.js", "curves.js", "cost.js")
SCRIPTS = ("memory.js", "later.js", "sort.js", "page.js", "runs.js", *CHARTS)


def write_page(report: Report, file: Path) -> Path:
    """Write the page in one step and return its place.

    Raises:
        RunError: the file cannot be written.
    """
    return write_text(file, render_page(report, file.parent))


def render_page(report: Report, folder: Path) -> str:
    """Render the page; links to the runs are relative to the folder it will lie in."""
    return render_sections(
        list(report_sections(report)),
        LoadedRuns(report.runs, report.warnings, tuple(map(Path, report.folders))),
        folder,
        report.created,
        title=f"{plural(len(report.runs), 'run')} compared",
        eyebrow="MATE · comparison",
        heading=page_title(report),
        cards=summary_cards(report),
        command="mate compare",
    )


def write_difference(section: ReportSection, loaded: LoadedRuns, file: Path) -> Path:
    """Write the page of two runs in one step and return its place.

    Raises:
        RunError: the file cannot be written.
    """
    now = datetime.now(timezone.utc)
    words: dict[str, Any] = {"title": "Two runs", "eyebrow": "MATE · difference", "heading": section.title, "cards": ()}
    return write_text(file, render_sections([section], loaded, file.parent, now, command="mate diff", **words))


def render_sections(
    sections: Sequence[ReportSection],
    loaded: LoadedRuns,
    folder: Path,
    created: datetime,
    *,
    command: str,
    **words: object,
) -> str:
    """Render a page of sections, those without content left out.

    Args:
        sections: in the order shown.
        loaded: the runs that they are of.
        folder: where the page will lie.
        created: when the runs were read.
        command: what writes it.
        **words: its title and heading, and what stands above the sections.
    """
    parts = [(section, content) for section in sections if (content := section.content()) is not None]
    return render_template(
        "compare.html",
        parts=[(section, {"note": "", **content}) for section, content in parts],
        folders=loaded.folders,
        created=f"{created:%d %B %Y, %H:%M %Z}",
        warnings=loaded.warnings,
        footer=f"Written by {command} on {created:%Y-%m-%d}.",
        style="compare.css",
        scripts=SCRIPTS,
        link=partial(run_link, folder=folder),
        **words,
    )


def page_title(report: Report) -> str:
    """Say how many runs and configurations are compared, and on what."""
    datasets = sorted({run.setting("dataset") for run in report.runs} - {""})
    place = f" on {' and '.join(datasets)}" if 0 < len(datasets) < 4 else ""
    return f"{plural(len(report.groups), 'configuration')}, {plural(len(report.runs), 'run')}{place}"


def run_link(target: Path, folder: Path) -> str:
    """Return a relative link to a run folder, or an absolute file address across drives."""
    try:
        return quote(Path(os.path.relpath(target.resolve(), folder.resolve())).as_posix()) + "/"
    except ValueError:
        return target.resolve().as_uri() + "/"


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
    ranked = ((group, summary) for group in report.groups if (summary := group.summary(report.ranked_by or "")))
    best, summary = next(ranked, (report.groups[0], None))
    if report.ranked_by is None or summary is None:
        return Card("Best", NOTHING, "no finished run has a score on dev")
    metric = MetricName.parse(report.ranked_by)
    several = len({group.block for group in report.groups}) > 1
    place = f" on {best.block}" if several and best.block else ""
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
