"""The end of a sweep that its user or a scheduler asks for: jobs are told once and save their states; none begins."""

from __future__ import annotations

import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from mate_cli.cli.app import ENDING, handle_signals
from mate_cli.files.safe_load import load_json
from mate_cli.runs.lock import is_alive

MARK = "stopped"
"""Lies beside the notes of a sweep's jobs once no other may begin."""
STILL_THERE, PAUSE = 0, 0.2
"""The signal that changes nothing, and the seconds between two of them."""
NOTICE = b"\nStopping when the jobs at work have saved their states; once more to stop now.\n"


class StopHandler:
    """Handling of signals in the process of a sweep, whichever launcher runs the jobs.

    A job is a process in a session of its own, which a terminal tells nothing.

    Args:
        notes: the files of the sweep's jobs.

    Raises:
        KeyboardInterrupt: at the end, where one was asked for; at once for the second time, or where no job is at work
            on this machine.
    """

    current: StopHandler | None = None
    """The handler of this process; None in the workers of a launcher."""

    def __init__(self, notes: Callable[[], Sequence[Path]]) -> None:
        self.asked = False
        self._notes = notes
        self._stack = ExitStack()

    def __enter__(self) -> StopHandler:
        self._stack.enter_context(handle_signals((signal.SIGINT, *ENDING), self._stop))
        StopHandler.current = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        ended = kind
        try:
            while self.asked and ended is not KeyboardInterrupt and self._tell(STILL_THERE):
                time.sleep(PAUSE)  # a launcher may have given up its jobs before they have
        except KeyboardInterrupt:
            ended = KeyboardInterrupt
            raise
        finally:
            StopHandler.current = None
            self._stack.close()
            if ended is KeyboardInterrupt:
                self._tell(signal.SIGKILL)
        if self.asked and ended is not KeyboardInterrupt:
            raise KeyboardInterrupt from error

    def _stop(self) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        for note in self._notes()[:1]:
            note.with_name(MARK).touch()
        if not self._tell(signal.SIGTERM):
            raise KeyboardInterrupt
        with suppress(OSError):
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, NOTICE)  # print could meet itself in a handler

    def _tell(self, number: int) -> int:
        """Send a signal to the jobs at work on this machine; return how many there are."""
        told = 0
        for file in self._notes():
            with suppress(OSError, ValueError, TypeError, AttributeError):
                host, _, process = str(load_json(file).get("process") or "").partition(" ")
                if host == platform.node() and is_alive(process):
                    os.kill(int(process.partition(":")[0]), number)
                    told += 1
        return told


def is_stopped(jobs: Path) -> bool:
    """Say whether a sweep may begin no other job."""
    return (jobs / MARK).exists()


def ignore_interrupts() -> None:
    """Leave, in a launcher's worker, what a terminal sends to the process of the sweep, which tells the job."""
    if StopHandler.current is None:
        with suppress(ValueError):  # not the main thread
            for number in (signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
