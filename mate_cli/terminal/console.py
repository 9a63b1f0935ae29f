"""Consoles for terminal output, and the transcript that copies their output."""

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
"""Widths in characters: of copied text, and the minimum and maximum of a layout."""


class Console(rich.console.Console):
    """A `rich` console that removes control characters and ignores markup and emoji codes.

    Args:
        copy: function that receives all printed text without colors.
        **options: options of `rich.console.Console`.
    """

    def __init__(self, copy: Callable[[str], object] | None = None, **options: Any) -> None:
        super().__init__(**{"highlight": False, "markup": False, "emoji": False, **options})
        self._copy = copy

    @property
    def size(self) -> ConsoleDimensions:
        """The width (at least `MIN_WIDTH`) and the height of the console in characters."""
        width, height = super().size
        return ConsoleDimensions(max(width, MIN_WIDTH), height)

    @size.setter
    def size(self, size: tuple[int, int]) -> None:
        self._width, self._height = size

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects as `rich` does, and pass the printed text to `copy` without colors.

        Objects that are only control codes, such as cursor movements, are not passed to `copy`.
        """
        super().print(*objects, **options)
        if self._copy and not all(isinstance(item, Control) for item in objects):
            plain_console = Console(file=io.StringIO(), width=COPY_WIDTH, color_system=None, force_terminal=False)
            with plain_console.capture() as captured:
                plain_console.print(*objects, **options)
            self._copy(captured.get())

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else segment._replace(text=printable(segment.text)) for segment in buffer
        )


def report_console() -> Console:
    """Create a console for reports that is at most 120 columns wide.

    Output to a file or pipe is plain text, 120 columns wide unless the variable COLUMNS is set.
    """
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = MAX_WIDTH
    console.width = min(console.width, MAX_WIDTH)
    return console


MAX_WAITING = 1000
"""Maximum number of lines that a `Transcript` buffers until `hand_to` is called.

If more lines are printed, the oldest are discarded.
"""


class Transcript:
    """A text sink that splits printed text into lines and passes each line to a function.

    If a line is overwritten, as a progress bar is, only its final text is passed. Lines are buffered until `hand_to`
    sets the function.
    """

    def __init__(self) -> None:
        self._unended = ""
        self._waiting: deque[str] = deque(maxlen=MAX_WAITING)
        self._take: Callable[[str], None] = self._waiting.append

    def write(self, text: str) -> None:
        """Add printed text to the buffer, and emit all lines that are now complete."""
        *lines, unended = (self._unended + text).replace("\r\n", "\n").split("\n")
        self._unended = unended.rpartition("\r")[2]
        for line in lines:
            if visible_text := line.rpartition("\r")[2].rstrip():
                self._take(visible_text)

    def hand_to(self, take: Callable[[str], None]) -> None:
        """Set the function that receives complete lines, starting with the buffered lines."""
        self._take = take
        while self._waiting:
            take(self._waiting.popleft())
