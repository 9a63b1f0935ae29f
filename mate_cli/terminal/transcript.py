"""Output of a run, kept for those who read it later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

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
