"""A comparison in the terminal: tables of results, and below them what explains them."""

from __future__ import annotations

import os

from rich.text import Text

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.all_sections import report_sections
from mate_cli.reports.compare.report import Report, state_text
from mate_cli.reports.compare.tables import units
from mate_cli.reports.format import plural
from mate_cli.reports.terminal.details import settings_view, unfinished_view
from mate_cli.reports.terminal.views import print_views
from mate_cli.reports.view import Mark, sentences
from mate_cli.terminal.console import Console

WIDEST = 120


def report_console() -> Console:
    """Returns a console at most 120 columns wide, and plain into a file or pipe (120 wide unless COLUMNS is set)."""
    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDEST
    console.width = min(console.width, WIDEST)
    return console


def print_report(report: Report, console: Console) -> None:
    """Prints a whole comparison."""
    for warning in report.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)
    for section in report_sections(report):
        print_views(section.tables, console, section.said)
    console.print(settings_view(report), "")
    if report.unfinished:
        console.print(unfinished_view(report), "")
    console.print(Text("\n".join(footer(report, console)), style="dim"))


def footer(report: Report, console: Console) -> list[str]:
    """Lists the notes below the tables."""
    counts = f"{plural(len(report.groups), 'configuration')}, {plural(len(report.runs), 'run')}"
    lines = [". ".join(filter(None, [f"{counts}: {state_text(report.runs)}", units(report.tables)])) + "."]
    if report.metric:
        lines[0] += f" Ranked by {MetricName.parse(report.metric).title}."
    marks = frozenset[Mark]().union(*(table.marks for table in report.tables))
    if "best" in marks:
        lines.append(f"Best of each column {'in bold' if console.is_terminal else 'with a star (*)'}.")
    if "close" in marks:
        how = "Underlined" if console.is_terminal else "With a dagger (†)"
        lines[-1] += f" {how}: no further from the best than the best's own ±."
    return [*lines, *(sentences([note]) for note in report.notes)]
