"""A comparison in the terminal: result tables, costs, and what went wrong."""

from __future__ import annotations

import os
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mate_cli.reports.format import NOTHING, center_text, count_text, duration_text, plural, rate_text, spread_text
from mate_cli.reports.grouping import Configuration
from mate_cli.reports.load import Run
from mate_cli.reports.metric_names import PARTS, MetricName
from mate_cli.reports.report import Report, reason_text, state_text
from mate_cli.reports.statistics import Summary
from mate_cli.reports.tables import ResultTable, Row

WIDEST = 120
NARROW = 110
MOST_ROWS = 40


class Marks(NamedTuple):
    """How a winner and a spread are marked."""

    star: str
    plus_minus: str


STATE_STYLES = {"failed": "red", "interrupted": "yellow", "running": "cyan", "finished": "green"}


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
    for table in report.tables:
        console.print(result_view(table, plain=not console.is_terminal, narrow=console.width < NARROW), "")
    console.print(cost_view(report), "")
    if report.unfinished:
        console.print(unfinished_view(report), "")
    console.print(Text("\n".join(footer(report, console)), style="dim"))


def footer(report: Report, console: Console) -> list[str]:
    """Lists the notes below the tables."""
    lines = [f"{plural(len(report.runs), 'run')}, {plural(len(report.groups), 'configuration')}. Scores in percent."]
    if any(table.rows for table in report.tables):
        lines.append(f"Best of each column in {'bold' if console.is_terminal else 'stars (*)'}.")
    if report.metric:
        lines.append(f"Ranked by {MetricName.parse(report.metric).title}.")
    sentences = [f"{note[0].upper()}{note[1:]}." for note in report.notes]
    return [" ".join(lines), *sentences]


def frame(title: str, *, narrow: bool = False) -> Table:
    """Returns an empty table in the house style."""
    return Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 0) if narrow else (0, 1, 0, 0),
        header_style="dim",
    )


def result_view(table: ResultTable, *, plain: bool, narrow: bool) -> Table:
    """Draws one table of results; without a terminal the best value wears a star in place of bold."""
    marks = Marks("*" if plain else "", "±" if narrow else " ±")
    view = frame(table.title, narrow=narrow)
    view.add_column("\nConfiguration", overflow="fold", min_width=13)
    for column in table.columns:
        view.add_column(heading(column, one_split=table.one_split), justify="right", no_wrap=True)
    view.add_column("\nn", justify="right", no_wrap=True)
    for row in table.rows[:MOST_ROWS]:
        best = [table.is_best(index, cell) for index, cell in enumerate(row.cells)]
        view.add_row(*row_texts(row, table, best, marks))
    if table.baselines:
        view.add_section()
    for row in table.baselines:
        view.add_row(*row_texts(row, table, [False] * len(row.cells), marks), style="dim")
    if len(table.rows) > MOST_ROWS:
        view.caption = f"{len(table.rows) - MOST_ROWS} more on the page"
    return view


def heading(metric: MetricName, *, one_split: bool) -> str:
    """Writes a column heading in two lines: the split or the part of the questions, then the score."""
    part = PARTS.get(metric.part, metric.part)
    above = part if one_split else f"{metric.split.capitalize()} {part if metric.part else ''}".strip()
    return f"{above}\n{metric.short}"


def row_texts(row: Row, table: ResultTable, best: list[bool], marks: Marks) -> list[Text]:
    """Writes the cells of one row."""
    columns = zip(row.cells, table.columns, best, strict=True)
    cells = [cell_text(cell, metric, wins, marks) for cell, metric, wins in columns]
    return [Text(row.label), *cells, Text(str(row.repeats) if row.repeats else "")]


def cell_text(cell: Summary | None, metric: MetricName, wins: bool, marks: Marks) -> Text:
    """Writes `62.8 ±0.4`, the winner bold, or with a star where nothing can be bold."""
    if cell is None:
        return Text(NOTHING, style="dim")
    text = Text((marks.star if wins else "") + center_text(cell, metric), style="bold green" if wins else "")
    spread = spread_text(cell, metric)
    return text.append(f"{marks.plus_minus}{spread}", style="not bold dim default") if spread else text


def cost_view(report: Report) -> Table:
    """Draws what each configuration cost and what became of its runs."""
    view = frame("Cost and status")
    view.add_column("Configuration", overflow="fold", min_width=13)
    for name in ("Parameters", "Examples/s", "Wall time", "Memory"):
        view.add_column(name, justify="right", no_wrap=True)
    view.add_column("Status", overflow="fold", min_width=10)
    for group in report.groups[:MOST_ROWS]:
        view.add_row(Text(group.label), *cost_texts(group), state_view(group))
    if len(report.groups) > MOST_ROWS:
        view.caption = f"{len(report.groups) - MOST_ROWS} more on the page"
    return view


def cost_texts(group: Configuration) -> list[str]:
    """Writes parameters, examples per second, wall time and peak memory, averaged over the runs that count."""
    memory = group.cost("peak_memory_mb")
    return [
        count_text(middle(group.cost("parameters"))),
        rate_text(middle(group.cost("examples_per_second", "throughput"))),
        duration_text(middle(group.cost("wall_seconds"))),
        f"{memory.center / 1000:.1f} GB" if memory else NOTHING,
    ]


def middle(summary: Summary | None) -> float | None:
    """Returns the middle of a summary, None when there is none."""
    return summary.center if summary else None


def state_view(group: Configuration) -> Text:
    """Writes the statuses of a configuration in their colours."""
    parts = state_text(group).split(", ")
    return Text(", ").join(Text(part, style=STATE_STYLES.get(part.split()[-1], "")) for part in parts)


def unfinished_view(report: Report) -> Table:
    """Draws the runs that have not finished, and why."""
    view = frame("Not finished")
    view.add_column("Run", overflow="fold", ratio=3)
    view.add_column("Seed", justify="right", no_wrap=True)
    view.add_column("Status", no_wrap=True)
    view.add_column("Reason", overflow="fold", ratio=2)
    for run in report.unfinished[:MOST_ROWS]:
        view.add_row(*unfinished_texts(run, report))
    if len(report.unfinished) > MOST_ROWS:
        view.caption = f"{len(report.unfinished) - MOST_ROWS} more on the page"
    return view


def unfinished_texts(run: Run, report: Report) -> list[Text]:
    """Writes the line of one run that has not finished."""
    state = Text(run.status, style=STATE_STYLES.get(run.status, ""))
    return [Text(run.name), Text(run.text("seed") or NOTHING), state, Text(reason_text(run, report.created))]
