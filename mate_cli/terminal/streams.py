"""Streams that remove control characters from all output to stdout and stderr."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

_STEERING = re.compile(
    # control characters, except tabs and line feeds
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    # characters that change the text direction
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    # Unicode line separators and invisible characters
    "\u2028\u2029\U000e0000-\U000e007f]"
    # carriage returns, which overwrite a line
    "|\r(?!\n)"
)


before_write: Callable[[], None] | None = None
"""Function that clears the progress line.

Streams call the function before they write other output.
"""


def printable(text: str) -> str:
    """Remove characters that could control a terminal or change the direction of a text.

    These are control characters, text direction marks and carriage returns.
    """
    return text if text.isascii() and text.isprintable() else _STEERING.sub("", text)


class BrokenPipeSafeStream:
    """A text stream that discards output after the reader of its pipe has exited.

    A run therefore continues after, for example, `mate train ... | head` has closed the pipe.

    Args:
        stream: stream to write to.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.raw_stream = stream

    def write(self, text: str) -> int:
        """Write a text unless the pipe is broken, and return the length of the text."""
        if before_write:
            before_write()
        with self._ignore_broken_pipe():
            self.raw_stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream unless the pipe is broken."""
        with self._ignore_broken_pipe():
            self.raw_stream.flush()

    @contextmanager
    def _ignore_broken_pipe(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.raw_stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self.raw_stream, name)


class CleanStream:
    """A text stream that removes control characters from all text written to the stream.

    `Console` removes control characters itself, so it writes to the underlying stream, `rich_proxied_file`.

    Args:
        stream: stream to write to.
        copy: function that receives all written text after cleaning.
    """

    def __init__(self, stream: IO[str] | CleanStream, copy: Callable[[str], object] | None = None) -> None:
        # rich reads the underlying stream from this attribute.
        self.rich_proxied_file: Any = (
            stream.rich_proxied_file if isinstance(stream, CleanStream) else BrokenPipeSafeStream(stream)
        )
        self._copy = copy

    def write(self, text: str) -> int:
        """Write a text without control characters.

        A leading carriage return is kept for progress bars.
        """
        start = "\r" if text.startswith("\r") else ""
        clean_text = start + printable(text[len(start) :])
        self.rich_proxied_file.write(clean_text)
        if self._copy:
            self._copy(clean_text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each text of `lines` without control characters."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self.rich_proxied_file, name)


@contextmanager
def clean_streams() -> Iterator[None]:
    """Replace stdout and stderr by streams that remove control characters, within a context.

    Characters that the terminal's encoding cannot represent become question marks. Output to a closed stream is
    discarded.
    """
    _open_standard_files()
    original = sys.stdout, sys.stderr
    for stream in original:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.stdout, sys.stderr = map(CleanStream, original)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = original


def _open_standard_files() -> None:
    """Open /dev/null for standard streams that the shell closed (`>&-`).

    Otherwise the next opened file would get the file descriptor of stdout.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # returns the lowest free file descriptor
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


@contextmanager
def copy_streams(copy: Callable[[str], object]) -> Iterator[None]:
    """Pass all output to stdout and stderr to the function `copy` too, within a context.

    Output of `Console` is not copied, because each console has a separate `copy` function.
    """
    original = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (CleanStream(stream, copy) for stream in original)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = original
