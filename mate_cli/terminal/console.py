"""Layout for a terminal, and the copy of what it shows that is kept."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import rich.console
from rich.console import ConsoleDimensions
from rich.control import Control
from rich.segment import Segment

from mate_cli.terminal.streams import printable

COPY_WIDTH, MIN_WIDTH, MAX_WIDTH = 100, 20, 120
"""Columns of what is kept of a console, and the fewest and the most that anything is laid out in."""


class Console(rich.console.Console):
    """A console of rich that cleans what is laid out; no text is taken for markup or a smiley.

    Args:
        copy: is given all that is printed, without colours; progress is left out.
        **options: those of rich.
    """

    def __init__(self, copy: Callable[[str], object] | None = None, **options: Any) -> None:
        super().__init__(**{"highlight": False, "markup": False, "emoji": False, **options})
        self._copy = copy

    @property
    def size(self) -> ConsoleDimensions:
        """Columns and rows; nothing is laid out in fewer columns than a few, whatever the terminal has."""
        width, height = super().size
        return ConsoleDimensions(max(width, MIN_WIDTH), height)

    @size.setter
    def size(self, size: tuple[int, int]) -> None:
        self._width, self._height = size

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does, and copy it; a bar that moves prints controls alone."""
        super().print(*objects, **options)
        if self._copy and not all(isinstance(shown, Control) for shown in objects):
            plain = Console(file=io.StringIO(), width=COPY_WIDTH, color_system=None, force_terminal=False)
            with plain.capture() as captured:
                plain.print(*objects, **options)
            self._copy(captured.get())

    def print_progress(self, text: str) -> None:
        """Print a line that nobody keeps."""
        super().print(text)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else segment._replace(text=printable(segment.text)) for segment in buffer
        )


def report_console() -> Console:
    """Return a console at most 120 columns wide, and plain into a file or pipe (120 wide unless COLUMNS is set)."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = MAX_WIDTH
    console.width = min(console.width, MAX_WIDTH)
    return console


MAX_WAITING = 1000
"""Lines that wait until somebody takes them."""


class Transcript:
    """Printed lines, handed on one by one; of what is drawn over itself, as progress bars are, the last state alone."""

    def __init__(self) -> None:
        self._unended = ""
        self._waiting: deque[str] = deque(maxlen=MAX_WAITING)
        self._take: Callable[[str], None] = self._waiting.append

    def write(self, text: str) -> None:
        """Add a piece of text; a line counts once it has ended."""
        *lines, unended = (self._unended + text).replace("\r\n", "\n").split("\n")
        self._unended = unended.rpartition("\r")[2]
        for line in lines:
            if shown := line.rpartition("\r")[2].rstrip():
                self._take(shown)

    def hand_to(self, take: Callable[[str], None]) -> None:
        """Give the lines so far, and from now on each as it is printed."""
        self._take = take
        while self._waiting:
            take(self._waiting.popleft())
