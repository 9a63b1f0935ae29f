"""A comparison in the terminal: tables of results, and below them what explains them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from rich.text import Text

from mate_cli.errors import ConfigError
from mate_cli.metrics.specs import MetricName
from mate_cli.reports.all_sections import BRIEF, WRONG, report_sections
from mate_cli.reports.compare.report import Report, published_notes, state_text
from mate_cli.reports.compare.tables import units
from mate_cli.reports.format import plural
from mate_cli.reports.terminal.views import MAX_ROWS, print_views, settings_view, unfinished_view
from mate_cli.reports.view import Mark, ReportSection, View, sentences
from mate_cli.terminal.console import Console

MAX_PAPERS, MAX_BRIEF = 5, 5
"""Rows of papers, and of runs that have not finished, in brief."""
UNRANKED = "Not ranked, as no run has a score on dev"


def print_report(report: Report, console: Console, *, brief: bool = False) -> None:
    """Print a comparison: all of it, or in brief one table of scores per data set, tests asked for, and costs."""
    print_warnings(report.warnings, console)
    marks: set[Mark] = set()
    for section in report_sections(report, among=BRIEF if brief else ()):
        views = [brief_view(view, report) for view in main_views(section, report)] if brief else section.tables
        print_views(views, console, section.visible_notes)
        marks.update(*(view.marks for view in views))
    if not brief:
        print_views([settings_view(report)], console)
    if report.unfinished:
        print_views([unfinished_view(report, MAX_BRIEF if brief else MAX_ROWS)], console)
    console.print(Text("\n".join(footer(report, console, marks, brief=brief)), style="dim"))


def print_wrong_answers(report: Report, console: Console) -> None:
    """Print the questions that one run answers wrongly.

    Raises:
        ConfigError: the comparison is of several runs, or the run has no predictions.
    """
    print_warnings(report.warnings, console)
    sections = list(report_sections(report, among=WRONG))
    if not sections:
        count = sum(run.parent is None for run in report.runs)
        problem = "needs one run" if count > 1 else "needs predictions, which this run has not"
        remedy = f"Give one run folder, not {count}" if count > 1 else "Type mate evaluate run=FOLDER split=dev"
        raise ConfigError(problem, where="sections=wrong", remedy=remedy)
    for section in sections:
        print_views(section.tables, console, section.notes)


def print_warnings(warnings: Sequence[str], console: Console) -> None:
    """Print what could not be read."""
    for warning in warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)


def main_views(section: ReportSection, report: Report) -> Sequence[View]:
    """Return of the results the table of the main metric of each block, of other sections all."""
    if section.name != "results":
        return section.tables
    chosen: dict[str, View] = {}
    for table, view in zip(report.tables, section.views, strict=True):
        is_main = report.metric in [column.full for column in table.columns]
        if is_main or table.block not in chosen:
            chosen[table.block] = view
    return list(chosen.values())


def brief_view(view: View, report: Report) -> View:
    """Return a table with a few rows of papers: of the same models where there are any."""
    models = {run.setting("model") for run in report.runs}
    papers = [row for row in view.rows if row.kind == "published"]
    named = {row.label: row.model for row in reversed(report.published) if row.model in models}
    first = {model: label for label, model in named.items()}.values()  # the files list the best of each model first
    selection = [row for row in papers if row.label in first][:MAX_PAPERS] or papers[:1]
    return replace(view, rows=tuple(row for row in view.rows if row.kind != "published" or row in selection))


def footer(report: Report, console: Console, marks: Collection[Mark], *, brief: bool) -> list[str]:
    """List the notes below the tables."""
    counts = f"{plural(len(report.groups), 'configuration')}, {plural(len(report.runs), 'run')}"
    lines = [". ".join(filter(None, [f"{counts}: {state_text(report.runs)}", units(report.tables)])) + "."]
    if report.metric:
        ranked = f"Ranked by {MetricName.parse(report.ranked_by).title}" if report.ranked_by else UNRANKED
        lines[0] += f" {ranked}."
    if "best" in marks:
        lines.append(f"Best of each column {'in bold' if console.is_terminal else 'with a star (*)'}.")
    if "close" in marks:
        how = "Underlined" if console.is_terminal else "With a dagger (†)"
        lines[-1] += f" {how}: within its ±, or no further than chance among so many questions explains."
    papers = published_notes(report.tables, report.published, report.options.statistic) if brief else []
    lines += [sentences([note]) for note in report.notes if note not in papers]
    more = "Test figures, settings" if any(table.is_test for table in report.tables) else "Settings"
    return [*lines, *[f"{more} and more: sections=all, or the page."] * brief]
