"""The terminal's tables below the others: settings, and what has not finished."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from mate_cli.reports.compare.config_difference import Comparison
from mate_cli.reports.compare.report import Report, reason_text
from mate_cli.reports.format import NOTHING
from mate_cli.reports.runs.load import LoadedRun

MOST_ROWS = 40
MOST_DIFFERENCES = 8
STATE_STYLES = {"failed": "red", "interrupted": "yellow", "running": "cyan", "finished": "green"}


def frame(title: str, *, narrow: bool = False) -> Table:
    """Returns an empty table in the house style."""
    return Table(
        title=Text(title, style="bold"),
        title_justify="left",
        min_width=len(title),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 0) if narrow else (0, 1, 0, 0),
        header_style="dim",
    )


def settings_view(report: Report) -> Table:
    """Draws what the configurations of each dataset and task have in common, and the settings in which they differ."""
    view = frame("Settings")
    view.add_column("Dataset and task", overflow="fold", max_width=34)
    view.add_column("In common, then what differs", overflow="fold")
    for number, comparison in enumerate(report.comparisons):
        if number and (comparison.differences or report.comparisons[number - 1].differences):
            view.add_section()
        add_settings(view, comparison)
    return view


def add_settings(view: Table, comparison: Comparison) -> None:
    """Adds the lines of one dataset and task."""
    view.add_row(Text(comparison.title), Text(" · ".join(comparison.common) or NOTHING))
    for difference in comparison.differences[:MOST_DIFFERENCES]:
        view.add_row(Text(f"  {difference.key}", style="yellow"), Text(difference.text))
    if (rest := len(comparison.differences) - MOST_DIFFERENCES) > 0:
        view.add_row(Text(f"  {rest} more", style="dim"), Text("on the page", style="dim"))


def unfinished_view(report: Report, most: int = MOST_ROWS) -> Table:
    """Draw the first runs that have not finished, and why."""
    view = frame("Not finished")
    view.add_column("Run", overflow="fold", ratio=3)
    view.add_column("Seed", justify="right", no_wrap=True)
    view.add_column("Status", no_wrap=True)
    view.add_column("Reason", overflow="fold", ratio=2)
    for run in report.unfinished[:most]:
        view.add_row(*unfinished_texts(run, report))
    if len(report.unfinished) > most:
        view.caption = f"{len(report.unfinished) - most} more on the page"
    return view


def unfinished_texts(run: LoadedRun, report: Report) -> list[Text]:
    """Writes the line of one run that has not finished."""
    state = Text(run.status, style=STATE_STYLES.get(run.status, ""))
    return [Text(run.name), Text(run.text("seed") or NOTHING), state, Text(reason_text(run, report.created))]
