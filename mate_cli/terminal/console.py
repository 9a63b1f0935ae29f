"""Consoles for terminal output, and the transcript of their output."""

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
"""Widths in characters: of the copied output, and minimum and maximum of a layout."""


class Console(rich.console.Console):
    """A rich console that removes control characters and interprets no markup or emoji codes.

    Args:
        copy: function that receives all printed text without colors, except progress lines.
        **options: options of `rich.console.Console`.
    """

    def __init__(self, copy: Callable[[str], object] | None = None, **options: Any) -> None:
        super().__init__(**{"highlight": False, "markup": False, "emoji": False, **options})
        self._copy = copy

    @property
    def size(self) -> ConsoleDimensions:
        """Width and height in characters. The width is at least `MIN_WIDTH`."""
        width, height = super().size
        return ConsoleDimensions(max(width, MIN_WIDTH), height)

    @size.setter
    def size(self, size: tuple[int, int]) -> None:
        self._width, self._height = size

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does, and pass the text to `copy` unless it only contains control codes."""
        super().print(*objects, **options)
        if self._copy and not all(isinstance(shown, Control) for shown in objects):
            plain_console = Console(file=io.StringIO(), width=COPY_WIDTH, color_system=None, force_terminal=False)
            with plain_console.capture() as captured:
                plain_console.print(*objects, **options)
            self._copy(captured.get())

    def print_progress(self, text: str) -> None:
        """Print a line that is not passed to `copy`."""
        super().print(text)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else segment._replace(text=printable(segment.text)) for segment in buffer
        )


def report_console() -> Console:
    """Return a console for reports, at most 120 columns wide.

    Output to a file or pipe is plain text, 120 columns wide unless COLUMNS is set.
    """
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = MAX_WIDTH
    console.width = min(console.width, MAX_WIDTH)
    return console


MAX_WAITING = 1000
"""Maximum number of lines that are buffered until `hand_to` is called."""


class Transcript:
    """Printed lines, passed on one by one.

    Of a line that is overwritten, such as a progress bar, only the final text is passed.
    """

    def __init__(self) -> None:
        self._unended = ""
        self._waiting: deque[str] = deque(maxlen=MAX_WAITING)
        self._take: Callable[[str], None] = self._waiting.append

    def write(self, text: str) -> None:
        """Append text and pass on the lines that have ended."""
        *lines, unended = (self._unended + text).replace("\r\n", "\n").split("\n")
        self._unended = unended.rpartition("\r")[2]
        for line in lines:
            if visible_text := line.rpartition("\r")[2].rstrip():
                self._take(visible_text)

    def hand_to(self, take: Callable[[str], None]) -> None:
        """Pass the buffered lines to `take`, and from now on each line as it is printed."""
        self._take = take
        while self._waiting:
            take(self._waiting.popleft())
