"""All that is written to stdout and stderr, cleaned."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

_STEERING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters, but for tabs and the ends of lines
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that turn the direction of what follows
    "\u2028\u2029\U000e0000-\U000e007f]"  # ends of lines that look like none, and letters that nobody sees
    "|\r(?!\n)"  # back to the beginning of a line that has been shown
)


before_write: Callable[[], None] | None = None
"""What takes a line that shows progress away before anything else is written."""


def printable(text: str) -> str:
    """Remove what would steer a terminal from a text: control characters, marks of direction, carriage returns."""
    return text if text.isascii() and text.isprintable() else _STEERING.sub("", text)


class LastingStream:
    """A text stream that outlives its reader: what is written after that goes nowhere, so that work goes on.

    Args:
        stream: what it writes to.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.raw_stream = stream

    def write(self, text: str) -> int:
        """Write a text."""
        if before_write:
            before_write()
        with self._outliving():
            self.raw_stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write what waits."""
        with self._outliving():
            self.raw_stream.flush()

    @contextmanager
    def _outliving(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.raw_stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self.raw_stream, name)


class CleanStream:
    """A text stream that cleans what is written to it; consoles, which clean by themselves, write past it.

    Args:
        stream: what it writes to.
        copy: is given all that is written to it.
    """

    def __init__(self, stream: IO[str] | CleanStream, copy: Callable[[str], object] | None = None) -> None:
        # The name by which rich asks for the stream behind another.
        self.rich_proxied_file: Any = (
            stream.rich_proxied_file if isinstance(stream, CleanStream) else LastingStream(stream)
        )
        self._copy = copy

    def write(self, text: str) -> int:
        """Write a text; a progress bar may begin with the return to its line."""
        start = "\r" if text.startswith("\r") else ""
        shown = start + printable(text[len(start) :])
        self.rich_proxied_file.write(shown)
        if self._copy:
            self._copy(shown)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self.rich_proxied_file, name)


@contextmanager
def clean_streams() -> Iterator[None]:
    """Clean all that is written to stdout and stderr; letters that they cannot hold become question marks.

    Where one of them is closed, what is written to it goes nowhere.
    """
    _open_standard_files()
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.stdout, sys.stderr = map(CleanStream, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _open_standard_files() -> None:
    """Open what a shell has closed (`>&-`), or else the next file that is opened would be written to as stdout."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


@contextmanager
def copy_streams(copy: Callable[[str], object]) -> Iterator[None]:
    """Give a copy of all that is written to stdout and stderr, but for what consoles lay out."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (CleanStream(stream, copy) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
