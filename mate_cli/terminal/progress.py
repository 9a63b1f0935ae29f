"""Progress of tasks: an updated line in a terminal, else one line per minute.

Short tasks show nothing.
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
"""Seconds before a terminal shows a line, and between two updates of the line."""
PLAIN_DELAY, PLAIN_SECONDS = 10.0, 60.0
"""Seconds before the first line without a terminal, and between two lines."""
BAR = 20
"""Width of a progress bar in characters."""

T = TypeVar("T")


class Progress:
    """The progress of a task, shown from `__enter__` to `__exit__`.

    Of nested tasks the latest is shown.

    Args:
        task: name of the task, such as "encoding train".
        total: amount of work in units, None if unknown.
        unit: unit of the counts, such as "examples". "B" for bytes, "" for no counts.
    """

    def __init__(self, task: str, total: float | None = None, unit: str = "") -> None:
        self.task, self.total, self.unit = task, total, unit
        self.done = self._before = 0.0
        self.began = time.monotonic()

    def __enter__(self) -> Progress:
        _LINE.show(self)
        return self

    def __exit__(self, *_: object) -> None:
        _LINE.end(self)

    def begin(self, task: str) -> None:
        """Switch to another task without counts."""
        self.task, self.total, self.unit, self.began = task, None, "", time.monotonic()

    def start_at(self, done: float) -> None:
        """Set the amount that was already done, which is excluded from the speed."""
        self.done = self._before = done

    def advance(self, count: float = 1) -> None:
        """Add to the amount that is done."""
        self.done += count

    def text(self, *, bar: bool = False) -> str:
        """Return the progress as text: "encoding train 1,280 of 23,000 examples, 3 min left"."""
        spent, done_here = time.monotonic() - self.began, self.done - self._before
        time_left = f"{time_text(spent)} so far"
        if self.total and done_here > 0:
            time_left = f"{time_text(max(0.0, self.total - self.done) * spent / done_here)} left"
        full = round(BAR * min(1.0, self.done / self.total)) if self.total else 0
        bar_text = f"{'━' * full}{'─' * (BAR - full)}" if bar and self.total else ""
        return " ".join(filter(None, [self.task, bar_text, f"{self._counts()}{time_left}"]))

    def _counts(self) -> str:
        if not self.unit:
            return ""
        show = size_text if self.unit == "B" else "{:,.0f}".format
        total = f" of {show(self.total)}" if self.total else ""
        return f"{show(self.done)}{total}{'' if self.unit == 'B' else f' {self.unit}'}, "


def track(items: Iterable[T], task: str, unit: str) -> Iterator[T]:
    """Yield items and show how many have been processed.

    Args:
        items: items to yield.
        task: name of the task.
        unit: plural noun for the items.
    """
    with Progress(task, len(items) if isinstance(items, Sized) else None, unit) as progress:
        for item in items:
            yield item
            progress.advance()


def leave_line() -> None:
    """Clear the progress line, so that subprocesses can use it."""
    _LINE.hide()
    _LINE.reset()


def time_text(seconds: float) -> str:
    """Format a duration: "40 s", "3 min", "2 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def size_text(size: float) -> str:
    """Format a number of bytes: "1.2 MB"."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


class _Line:
    """The progress line on stderr, drawn by a thread while a task is running.

    Only rank 0 draws it.
    """

    def __init__(self) -> None:
        self._works: list[Progress] = []
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._drawn = False
        self._next = 0.0  # time of the next line without a terminal

    def show(self, work: Progress) -> None:
        self._works.append(work)
        if len(self._works) == 1:
            self._ended = threading.Event()
            streams.before_write = self.hide
            threading.Thread(target=self._draw, args=(self._ended,), daemon=True).start()

    def end(self, work: Progress) -> None:
        with self._lock:
            if work in self._works:  # False in a process that was forked meanwhile
                self._works.remove(work)
            self.hide()
            if not self._works:
                self._ended.set()

    def hide(self) -> None:
        """Clear the progress line before other output."""
        with self._lock:
            if self._drawn:
                self._drawn = False
                _write("\r\x1b[K")

    def reset(self) -> None:
        """Reset the state after a fork: the child process has no drawing thread."""
        self.__init__()  # type: ignore[misc]
        streams.before_write = None

    def _draw(self, ended: threading.Event) -> None:
        while not ended.wait(REFRESH):
            with self._lock:
                now = time.monotonic()
                progress = self._works[-1] if self._works and os.environ.get("RANK", "0") == "0" else None
                terminal = sys.stderr.isatty()
                if progress is None or ended.is_set() or now - progress.began < (DELAY if terminal else PLAIN_DELAY):
                    continue
                if terminal:
                    width = max(20, shutil.get_terminal_size().columns - 1)
                    _write(f"\r{printable(progress.text(bar=width >= 70))[:width]}\x1b[K")
                    self._drawn = True
                elif now >= self._next:
                    _write(f"{printable(progress.text())}\n")
                    self._next = now + PLAIN_SECONDS


def _write(text: str) -> None:
    """Write to the original stderr, bypassing cleaning and copying."""
    stream: Any = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
    stream = getattr(stream, "raw_stream", stream)
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):  # The stream is closed or its reader is gone.
        pass


_LINE = _Line()
os.register_at_fork(after_in_child=_LINE.reset)
