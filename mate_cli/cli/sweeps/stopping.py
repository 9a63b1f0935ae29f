"""Stop a sweep when its user or a scheduler interrupts it.

The first signal is forwarded to the running jobs, which save checkpoints and end. No further job starts. The second
signal kills the jobs.
"""

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

from mate_cli.cli.app import TERMINATION_SIGNALS, handle_signals
from mate_cli.files.safe_load import load_json
from mate_cli.runs.lock import is_alive

STOP_FILE_NAME = "stopped"
"""Name of a file in the folder of the sweep's jobs. If it exists, no further job starts."""
STILL_THERE, PAUSE = 0, 0.2
"""Signal 0, which only checks that a process exists, and the pause between two checks in seconds."""
NOTICE = b"\nStopping when the jobs at work have saved their states; once more to stop now.\n"


class StopHandler:
    """Context manager that handles interrupts in the main process of a sweep.

    Jobs are processes in separate sessions and receive no signals of the terminal, so the handler forwards signals to
    them. It works for all Hydra launchers.

    Args:
        notes: function that returns the paths of the files of the sweep's jobs.

    Raises:
        KeyboardInterrupt: at exit if a signal was received. Immediately for the second signal, or if no job is running
            on this machine.
    """

    current: StopHandler | None = None
    """Active handler of this process. None in the worker processes of a launcher."""

    def __init__(self, notes: Callable[[], Sequence[Path]]) -> None:
        self.asked = False
        self._notes = notes
        self._stack = ExitStack()

    def __enter__(self) -> StopHandler:
        self._stack.enter_context(handle_signals((signal.SIGINT, *TERMINATION_SIGNALS), self._stop))
        StopHandler.current = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        exit_type = kind
        try:
            while self.asked and exit_type is not KeyboardInterrupt and self._send_signal(STILL_THERE):
                # Wait for the jobs, which may run longer than their launcher.
                time.sleep(PAUSE)
        except KeyboardInterrupt:
            exit_type = KeyboardInterrupt
            raise
        finally:
            StopHandler.current = None
            self._stack.close()
            if exit_type is KeyboardInterrupt:
                self._send_signal(signal.SIGKILL)
        if self.asked and exit_type is not KeyboardInterrupt:
            raise KeyboardInterrupt from error

    def _stop(self) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        for note in self._notes()[:1]:
            note.with_name(STOP_FILE_NAME).touch()
        if not self._send_signal(signal.SIGTERM):
            raise KeyboardInterrupt
        with suppress(OSError):
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, NOTICE)  # print is not reentrant

    def _send_signal(self, number: int) -> int:
        """Send a signal to all running jobs of a sweep on this machine, and return their number."""
        count = 0
        for file in self._notes():
            with suppress(Exception):  # A job without a readable note has no process.
                host, _, process = str(load_json(file).get("process") or "").partition(" ")
                if host == platform.node() and is_alive(process):
                    os.kill(int(process.partition(":")[0]), number)
                    count += 1
        return count


def is_stopped(jobs: Path) -> bool:
    """Return whether a sweep was interrupted and must start no further job.

    Args:
        jobs: folder with the files of the sweep's jobs.
    """
    return (jobs / STOP_FILE_NAME).exists()


def ignore_interrupts() -> None:
    """Ignore SIGINT and SIGHUP in a worker process of a launcher.

    The sweep process handles the signals and forwards them to the jobs. Does nothing in the sweep process itself.
    """
    if StopHandler.current is None:
        with suppress(ValueError):  # Only the main thread may set handlers.
            for number in (signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
