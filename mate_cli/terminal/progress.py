"""Progress of work: a line that changes in a terminal, elsewhere a line a minute; nothing for what ends at once."""

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
"""Seconds before a terminal has a line, and between two states of it."""
PLAIN_DELAY, PLAIN_SECONDS = 10.0, 60.0
"""Seconds before the first line where there is no terminal, and between two: a short command has none."""
BAR = 20
"""Columns of a bar."""

T = TypeVar("T")


class Progress:
    """Some work, shown from `__enter__` to `__exit__`; of some within others the last one begun.

    Args:
        task: the work: "encoding train".
        total: how much there is to do; None where it is not known.
        unit: what is counted: "examples"; "B" for bytes, "" where nothing is.
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
        """Go on to other work, of which nothing is counted."""
        self.task, self.total, self.unit, self.began = task, None, "", time.monotonic()

    def start_at(self, done: float) -> None:
        """Count what was done before; it says nothing of the pace."""
        self.done = self._before = done

    def advance(self, count: float = 1) -> None:
        """Count what was done."""
        self.done += count

    def text(self, *, bar: bool = False) -> str:
        """Return all that is known: "encoding train 1,280 of 23,000 examples, 3 min left"."""
        spent, done = time.monotonic() - self.began, self.done - self._before
        time_left = f"{time_text(spent)} so far"
        if self.total and done > 0:
            time_left = f"{time_text(max(0.0, self.total - self.done) * spent / done)} left"
        full = round(BAR * min(1.0, self.done / self.total)) if self.total else 0
        drawn = f"{'━' * full}{'─' * (BAR - full)}" if bar and self.total else ""
        return " ".join(filter(None, [self.task, drawn, f"{self._counts()}{time_left}"]))

    def _counts(self) -> str:
        if not self.unit:
            return ""
        show = size_text if self.unit == "B" else "{:,.0f}".format
        total = f" of {show(self.total)}" if self.total else ""
        return f"{show(self.done)}{total}{'' if self.unit == 'B' else f' {self.unit}'}, "


def track(items: Iterable[T], task: str, unit: str) -> Iterator[T]:
    """Yield items, and show how many there were."""
    with Progress(task, len(items) if isinstance(items, Sized) else None, unit) as progress:
        for item in items:
            yield item
            progress.advance()


def leave_line() -> None:
    """Leave the line to processes that this one waits for."""
    _LINE.hide()
    _LINE.reset()


def time_text(seconds: float) -> str:
    """Write a time in few words: "40 s", "3 min", "2 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def size_text(size: float) -> str:
    """Write a number of bytes: "1.2 MB"."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


class _Line:
    """The line on the error stream in which a thread shows the work of this process, while there is some.

    Of processes that train together the first alone shows its own.
    """

    def __init__(self) -> None:
        self._works: list[Progress] = []
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._drawn = False
        self._next = 0.0  # when the next line may be printed where there is no terminal

    def show(self, work: Progress) -> None:
        self._works.append(work)
        if len(self._works) == 1:
            self._ended = threading.Event()
            streams.before_write = self.hide
            threading.Thread(target=self._draw, args=(self._ended,), daemon=True).start()

    def end(self, work: Progress) -> None:
        with self._lock:
            if work in self._works:  # not in a process that was forked meanwhile
                self._works.remove(work)
            self.hide()
            if not self._works:
                self._ended.set()

    def hide(self) -> None:
        """Take the line away, before something else is written."""
        with self._lock:
            if self._drawn:
                self._drawn = False
                _write("\r\x1b[K")

    def reset(self) -> None:
        """Forget the work of the process that this one was forked from: its thread is not here."""
        self.__init__()  # type: ignore[misc]
        streams.before_write = None

    def _draw(self, ended: threading.Event) -> None:
        while not ended.wait(REFRESH):
            with self._lock:
                now = time.monotonic()
                work = self._works[-1] if self._works and os.environ.get("RANK", "0") == "0" else None
                terminal = sys.stderr.isatty()
                if work is None or ended.is_set() or now - work.began < (DELAY if terminal else PLAIN_DELAY):
                    continue
                if terminal:
                    width = max(20, shutil.get_terminal_size().columns - 1)
                    _write(f"\r{printable(work.text(bar=width >= 70))[:width]}\x1b[K")
                    self._drawn = True
                elif now >= self._next:
                    _write(f"{printable(work.text())}\n")
                    self._next = now + PLAIN_SECONDS


def _write(text: str) -> None:
    """Write to the error stream, past what cleans and keeps what is written there."""
    stream: Any = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
    stream = getattr(stream, "raw_stream", stream)
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):  # nobody reads it any more
        pass


_LINE = _Line()
os.register_at_fork(after_in_child=_LINE.reset)
