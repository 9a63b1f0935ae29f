"""Progress of tasks: one updated line in a terminal, otherwise one new line per minute.

Tasks that take less than `DELAY` (in a terminal) or `PLAIN_DELAY` seconds show nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

from mate_cli.terminal import streams
from mate_cli.terminal.streams import printable

DELAY, REFRESH = 1.5, 0.25
"""Seconds before the progress line appears in a terminal, and between two of its updates."""
PLAIN_DELAY, PLAIN_SECONDS = 10.0, 60.0
"""Seconds before the first progress line if stderr is no terminal, and between two lines."""
BAR = 20
"""Width of a progress bar in characters."""

T = TypeVar("T")


class Progress:
    """Context manager that shows the progress of a task on stderr.

    If tasks are nested, only the innermost task is shown.

    Args:
        task: name of the task, such as "encoding train".
        total: total amount of work in units, None if unknown.
        unit: unit of the amounts, such as "examples". "B" formats bytes, "" shows no amounts.

    Attributes:
        detail: text that is shown after the amounts, such as ", loss 1.204".
    """

    def __init__(self, task: str, total: float | None = None, unit: str = "") -> None:
        self.task, self.total, self.unit = task, total, unit
        self.done = self._before = 0.0
        self.detail = ""
        self.began = time.monotonic()

    def __enter__(self) -> Progress:
        _LINE.show(self)
        return self

    def __exit__(self, *_: object) -> None:
        _LINE.end(self)

    def begin(self, task: str) -> None:
        """Start the clock of a named task, and stop showing the amount of completed work."""
        self.task, self.total, self.unit, self.began = task, None, "", time.monotonic()

    def start_at(self, done: float) -> None:
        """Set the amount of work completed earlier, which is excluded when the speed is computed."""
        self.done = self._before = done

    def advance(self, count: float = 1) -> None:
        """Add `count` units to the amount of completed work."""
        self.done += count

    def text(self, *, bar: bool = False) -> str:
        """Format the progress: "encoding train 1,280 of 23,000 examples, 3 min left".

        The remaining time is estimated from the speed so far. If `total` is unknown, the elapsed time is shown instead.
        """
        spent, progress = time.monotonic() - self.began, self.done - self._before
        time_left = f"{time_text(spent)} so far"
        if self.total and progress > 0:
            time_left = f"{time_text(max(0.0, self.total - self.done) * spent / progress)} left"
        full = round(BAR * min(1.0, self.done / self.total)) if self.total else 0
        bar_text = f"{'━' * full}{'─' * (BAR - full)}" if bar and self.total else ""
        return " ".join(filter(None, [self.task, bar_text, f"{self._counts()}{time_left}"]))

    def _counts(self) -> str:
        if not self.unit:
            return ""
        show = size_text if self.unit == "B" else "{:,.0f}".format
        total = f" of {show(self.total)}" if self.total else ""
        return f"{show(self.done)}{total}{'' if self.unit == 'B' else f' {self.unit}'}{self.detail}, "


def track(items: Iterable[T], task: str, unit: str) -> Iterator[T]:
    """Yield the given items and show how many of them have been processed.

    Args:
        items: items to yield.
        task: name of the task, such as "reading runs".
        unit: plural noun for the items, such as "folders".
    """
    with Progress(task, len(items) if isinstance(items, Sized) else None, unit) as progress:
        for item in items:
            yield item
            progress.advance()


def leave_line() -> None:
    """Clear the progress line, so that a subprocess can write to the terminal."""
    _LINE.hide()
    _LINE.reset()


def time_text(seconds: float) -> str:
    """Format a duration in seconds as text: "40 s", "3 min", "2 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def size_text(size: float) -> str:
    """Format a number of bytes as text: "1.2 MB", "3.40 GB"."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


class _Line:
    """The line on stderr that shows the progress of tasks, drawn by a background thread.

    Only the process with rank 0 draws the line.
    """

    def __init__(self) -> None:
        self._works: list[Progress] = []
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._drawn = False
        self._next = 0.0  # time of the next line without a terminal

    def show(self, task: Progress) -> None:
        self._works.append(task)
        if len(self._works) == 1:
            self._ended = threading.Event()
            streams.before_write = self.hide
            threading.Thread(target=self._draw, args=(self._ended,), daemon=True).start()

    def end(self, task: Progress) -> None:
        with self._lock:
            if task in self._works:  # False in a process that was forked meanwhile
                self._works.remove(task)
            self.hide()
            if not self._works:
                self._ended.set()

    def hide(self) -> None:
        """Clear the progress line before other output is written."""
        with self._lock:
            if self._drawn:
                self._drawn = False
                _write("\r\x1b[K")

    def reset(self) -> None:
        """Reset the state after a fork, because the child process has no drawing thread."""
        self.__init__()  # type: ignore[misc]
        streams.before_write = None

    def _draw(self, stop: threading.Event) -> None:
        while not stop.wait(REFRESH):
            with self._lock:
                seconds = time.monotonic()
                progress = self._works[-1] if self._works and os.environ.get("RANK", "0") == "0" else None
                terminal = sys.stderr.isatty()
                if progress is None or stop.is_set() or seconds - progress.began < (DELAY if terminal else PLAIN_DELAY):
                    continue
                if terminal:
                    width = max(20, shutil.get_terminal_size().columns - 1)
                    text = printable(progress.text(bar=True))
                    text = text if len(text) <= width else printable(progress.text())
                    _write(f"\r{text[:width]}\x1b[K")
                    self._drawn = True
                elif seconds >= self._next:
                    _write(f"{printable(progress.text())}\n")
                    self._next = seconds + PLAIN_SECONDS


def _write(text: str) -> None:
    """Write a text to the original stderr, bypassing the streams that filter or copy output."""
    stream: Any = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
    stream = getattr(stream, "raw_stream", stream)
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):  # The stream is closed or its reader is gone.
        pass


_LINE = _Line()
os.register_at_fork(after_in_child=_LINE.reset)
