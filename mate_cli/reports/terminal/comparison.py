"""A comparison in the terminal: tables of results, and below them what explains them."""

from __future__ import annotations

import os
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.report import Report, state_text
from mate_cli.reports.compare.statistics import Summary
from mate_cli.reports.compare.tables import Mark, ResultRow, ResultTable, units
from mate_cli.reports.format import NOTHING, center_text, plural, spread_text
from mate_cli.reports.terminal.details import MOST_ROWS, cost_view, frame, settings_view, unfinished_view
from mate_cli.terminal.console import Console

WIDEST = 120
NARROW = 110
STYLES: dict[Mark, str] = {"best": "bold green", "close": "underline", "": ""}


class MarkSigns(NamedTuple):
    """The signs before a value and between it and its spread; a terminal needs no signs for marks."""

    signs: dict[Mark, str]
    plus_minus: str


def report_console() -> Console:
    """Returns a console at most 120 columns wide, and plain into a file or pipe (120 wide unless COLUMNS is set)."""
    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDEST
    console.width = min(console.width, WIDEST)
    return console


def print_report(report: Report, console: Console) -> None:
    """Prints a whole comparison."""
    narrow = console.width < NARROW
    for warning in report.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)
    for table in report.tables:
        console.print(result_view(table, plain=not console.is_terminal, narrow=narrow), "")
    console.print(cost_view(report, narrow=narrow), "")
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
    return [*lines, *(f"{note[0].upper()}{note[1:]}." for note in report.notes)]


def result_view(table: ResultTable, *, plain: bool, narrow: bool) -> Table:
    """Draws one table of results; without a terminal, signs stand for bold and underlined."""
    marks = MarkSigns({"best": "*", "close": "†", "": ""} if plain else {}, "±" if narrow else " ±")
    view = frame(table.title, narrow=narrow)
    view.add_column("\nConfiguration", overflow="fold", min_width=13)
    for column in table.columns:
        view.add_column(heading(column, table), justify="right", no_wrap=True)
    view.add_column("\nn", justify="right", no_wrap=True)
    for row in table.rows[:MOST_ROWS]:
        view.add_row(*styled_row(row, table, [table.mark(index, cell) for index, cell in enumerate(row.cells)], marks))
    for title, rows in (("", table.baselines), ("published", table.published)):
        add_references(view, title, rows, table, marks)
    if len(table.rows) > MOST_ROWS:
        view.caption = f"{len(table.rows) - MOST_ROWS} more on the page"
    return view


def add_references(view: Table, title: str, rows: tuple[ResultRow, ...], table: ResultTable, marks: MarkSigns) -> None:
    """Adds rows that are no configurations below the others, dim and unmarked, under a title of their own."""
    if not rows:
        return
    view.add_section()
    if title:
        view.add_row(Text(title, style="italic"), style="dim")
    for row in rows:
        view.add_row(*styled_row(row, table, [""] * len(row.cells), marks), style="dim")


def heading(metric: MetricName, table: ResultTable) -> str:
    """Writes a column heading in two lines: the split or the part of the questions, then the score.

    What the table's title says already is left out.
    """
    if table.one_score:
        return f"\n{metric.part_title}"
    part = "" if table.one_part or not metric.part else metric.part_title
    above = (
        metric.part_title if table.one_split and not table.one_part else f"{metric.split.capitalize()} {part}".strip()
    )
    return f"{above}\n{metric.short}"


def styled_row(row: ResultRow, table: ResultTable, marked: list[Mark], marks: MarkSigns) -> list[Text]:
    """Writes the cells of one row."""
    columns = zip(row.cells, table.columns, marked, strict=True)
    cells = [styled_cell(cell, metric, mark, marks) for cell, metric, mark in columns]
    return [Text(row.label), *cells, Text(str(row.repeats) if row.repeats else "")]


def styled_cell(cell: Summary | None, metric: MetricName, mark: Mark, marks: MarkSigns) -> Text:
    """Writes `62.8 ±0.4`, marked by its style, or by a sign where there are no styles."""
    if cell is None:
        return Text(NOTHING, style="dim")
    text = Text().append(marks.signs.get(mark, "") + center_text(cell, metric), style=STYLES[mark])
    spread = spread_text(cell, metric)
    return text.append(f"{marks.plus_minus}{spread}", style="dim") if spread else text
