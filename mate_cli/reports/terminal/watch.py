"""What somebody sees who watches running jobs: a screen that is drawn again and again, or a line per change."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from types import TracebackType

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segments
from rich.table import Table
from rich.text import Text

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.report import Report, reason_text
from mate_cli.reports.format import NOTHING, duration_text
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.reports.runs.running import Progress, is_at_work, runs_at_work
from mate_cli.reports.terminal.comparison import WIDEST
from mate_cli.reports.terminal.details import frame, unfinished_view
from mate_cli.reports.terminal.views import NARROW, fitting, terminal_table
from mate_cli.reports.view import report_sections
from mate_cli.terminal.console import Console

BLOCKS = "▁▂▃▄▅▆▇█"
TREND, BAR = 10, 14
SCORES = ("results", "significance")
"""The sections that are watched."""
PATIENCE = 60.0
"""Seconds between two jobs of a sweep at most."""
SLIM, SPARED = 90, ("Progress", "Trend", "Running for")
"""In fewer columns than SLIM, these are left out."""


class Screen:
    """The whole terminal, given back as it was at the end.

    Args:
        console: the terminal.
        seconds: between two looks, as shown in the last line.
    """

    def __init__(self, console: Console, seconds: float) -> None:
        self.console, self.seconds = console, seconds
        self._live = Live(console=console, screen=True, auto_refresh=False)

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def show(self, report: Report | None, problem: str = "") -> None:
        """Draws the report, as much of it as there is room for, and why there is no newer one."""
        self.console.width = min(shutil.get_terminal_size().columns, WIDEST)
        parts = [line for view in watch_tables(report, self.console) for line in (view, "")] if report else []
        lines = self.console.render_lines(Group(*parts), pad=False, new_lines=True)
        room = max(self.console.height - 3, 1)
        more = "  ·  more on the page" if len(lines) > room else ""
        time = f"{report.created.astimezone():%H:%M:%S}  ·  " if report else ""
        last = Text(f"{time}every {self.seconds:g} s{more}  ·  Ctrl-C ends", style="dim")
        trouble = [Text(problem, style="yellow", no_wrap=True, overflow="ellipsis")] if problem else []
        seen = Segments(segment for line in lines[:room] for segment in line)
        self._live.update(Group(seen, *trouble, last), refresh=True)

    def goes_on(self, report: Report | None) -> bool:
        """A screen stays until somebody ends it: a sweep may start its next job any moment."""
        return True


class WatchLines:
    """A line per change, for a file or a pipe; ends when nothing has been running for a minute, or nothing ever was.

    Args:
        console: where the lines go.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._said: dict[str, str] = {}
        self._last_work: datetime | None = None

    def __enter__(self) -> WatchLines:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def show(self, report: Report | None, problem: str = "") -> None:
        """Prints what has changed since the last time."""
        lines = dict(run_lines(report)) if report else {}
        for name, line in ({"": problem} if problem else lines).items():
            if self._said.get(name) != line:
                self._said[name] = line
                stamp = f"{report.created.astimezone():%H:%M:%S} " if report else ""
                self.console.print(Text(stamp + line), soft_wrap=True)

    def goes_on(self, report: Report | None) -> bool:
        """Says whether a run is still at work, or the next job of a sweep may be about to start."""
        if report is None:
            return False
        if any(is_at_work(run) for run in report.runs):
            self._last_work = report.created
        return self._last_work is not None and (report.created - self._last_work).total_seconds() < PATIENCE


def watch_tables(report: Report, console: Console) -> Iterator[RenderableType]:
    """Yields the tables, the most urgent first."""
    yield running_view(runs_at_work(report), console.width)
    for _, section in report_sections(report):
        if section.name in SCORES:
            yield from (terminal_table(view, console) for view in fitting(section.tables, console))
    stopped = replace(report, runs=tuple(run for run in report.unfinished if not is_at_work(run)))
    if stopped.runs:
        yield unfinished_view(stopped)


def running_view(working: Sequence[Progress], width: int) -> Table | Text:
    """Draws the runs at work, a line each; the narrower, the fewer columns."""
    if not working:
        return Text("Nothing is running", style="bold")
    view = frame("Running", narrow=width < NARROW)
    rows = [running_cells(one) for one in working]
    names = [name for name in rows[0] if width >= SLIM or name not in SPARED]
    for name in names:
        left = name in ("Configuration", "Progress", "Trend")
        view.add_column(name, justify="left" if left else "right", no_wrap=name != "Configuration", overflow="fold")
    for row in rows:
        view.add_row(*(row[name] for name in names))
    return view


def running_cells(one: Progress) -> dict[str, RenderableType]:
    """Writes the line of one run, by heading."""
    bar = ProgressBar(total=one.total, completed=min(one.step, one.total), width=BAR) if one.total else Text(NOTHING)
    return {
        "Configuration": Text(one.label),
        "Seed": Text(one.run.text("seed") or NOTHING),
        "Progress": bar,
        "Steps": Text(steps_text(one)),
        "Left": Text(duration_text(one.seconds_left)),
        "Loss": Text(NOTHING if one.loss is None else f"{one.loss:.3f}"),
        "Validation": Text(latest_score_text(one) or NOTHING),
        "Trend": Text(trend_text(one.history), style="cyan"),
        "Running for": Text(duration_text(one.age), style="dim"),
    }


def steps_text(one: Progress) -> str:
    """Writes `312/565`, or the step alone where nobody knows the total."""
    return f"{one.step}/{one.total}" if one.total else str(one.step)


def latest_score_text(one: Progress) -> str:
    """Writes the latest validation score with its name, empty before the first."""
    if one.metric is None:
        return ""
    return f"{one.metric.short} {one.metric.spec.text(one.history[-1])}"


def trend_text(history: Sequence[float]) -> str:
    """Draws the last values as blocks between the lowest and the highest; a single value is no trend."""
    shown = history[-TREND:]
    low, high = min(shown, default=0.0), max(shown, default=0.0)
    if len(shown) < 2 or low == high:
        return ""
    return "".join(BLOCKS[round((value - low) / (high - low) * (len(BLOCKS) - 1))] for value in shown)


def run_lines(report: Report) -> Iterator[tuple[str, str]]:
    """Yields a run's folder and what can be said of it; a new step alone is no news."""
    labels = {id(run): group.label for group in report.groups for run in group.runs}
    working = {id(one.run): one for one in runs_at_work(report)}
    for run in report.runs:
        name = " ".join(filter(None, [labels.get(id(run), run.name), f"seed {run.text('seed')}:"]))
        news = working_text(working[id(run)]) if id(run) in working else ended_text(run, report)
        yield run.name, f"{name} {news}"


def working_text(one: Progress) -> str:
    """Says how far a run had come at its last validation."""
    return f"running, {latest_score_text(one)} at its validation {len(one.history)}" if one.metric else "running"


def ended_text(run: LoadedRun, report: Report) -> str:
    """Says what became of a run."""
    if run.status == "running":
        return "running" if is_at_work(run) else "lost: its process has gone, or has written nothing for long"
    if run.status != "finished":
        return f"{run.status}, {reason_text(run, report.created)}"
    score = run.metrics.get(report.metric) if report.metric else None
    metric = MetricName.parse(report.metric) if report.metric else None
    if score is None or metric is None:
        return "finished"
    return f"finished, {metric.title} {metric.spec.text(score)}"
