"""Follows running jobs: looks at the run folders again and again, and shows what it sees."""

from __future__ import annotations

import time
from collections.abc import Callable

from mate_cli.errors import ConfigError, MateError
from mate_cli.reports.compare.report import Report
from mate_cli.reports.terminal.watch import Screen, WatchLines
from mate_cli.terminal.console import Console

SHARE = 4
"""A look may take a fifth of the time: what is watched needs the machine more than the watching does."""
PAGE_SECONDS = 15.0
"""Between two versions of the page at least; how often it loads itself again."""


def watch(
    look: Callable[[], Report], keep: Callable[[Report], object], console: Console, seconds: float
) -> Report | None:
    """Shows the runs until Ctrl-C; without a terminal, prints a line per change until nothing is running.

    Args:
        look: reads the runs.
        keep: writes the page and other files that are to follow the runs.
        console: the terminal, file or pipe.
        seconds: between two looks.

    Returns:
        What was seen last, None when there was nothing yet.

    Raises:
        ConfigError: the very first look fails for something the user typed.
        MateError: it fails for anything else, and there is no terminal where somebody would wait.
    """
    view = Screen(console, seconds) if console.is_terminal else WatchLines(console)
    report, written, goes_on = None, Written(keep), True
    try:
        with view:
            while goes_on:
                began = time.monotonic()
                try:
                    report, problem = look(), ""
                except MateError as error:
                    if report is None and (isinstance(error, ConfigError) or isinstance(view, WatchLines)):
                        raise
                    problem = str(error)
                view.show(report, problem)
                if report and not problem:
                    written.again(report)
                goes_on = view.goes_on(report)
                if goes_on:
                    time.sleep(max(seconds, SHARE * (time.monotonic() - began)))
    except KeyboardInterrupt:  # how somebody ends it who has seen enough
        pass
    return report


class Written:
    """The files that follow the runs: written when something has changed, and not too often.

    Args:
        keep: writes them.
    """

    def __init__(self, keep: Callable[[Report], object]) -> None:
        self._keep = keep
        self._state: object = None
        self._next = 0.0

    def again(self, report: Report) -> None:
        """Writes the files if a run has moved on since and it is time."""
        state = [(run.name, run.status, run.touched) for run in report.runs]
        began = time.monotonic()
        if state == self._state or began < self._next:
            return
        self._keep(report)
        self._state = state
        ended = time.monotonic()
        self._next = ended + max(PAGE_SECONDS, SHARE * (ended - began))
