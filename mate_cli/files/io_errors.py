"""The way into the program for whatever somebody else wrote: any failure on reading becomes one error with a name.

So does what a disk refuses, wherever it is met.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten

from mate_cli.errors import MateError, known_cause

FULL, CLOSED = "Free space, and run it again", "Check the permissions of the folder"
REFUSALS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), CLOSED),
}
"""Why a disk refuses to be written or read, and what to do."""


LOWER = "Lower hardware.micro_batch or encoding.max_tokens"
_NO_MEMORY = re.compile(
    r"out of memory|(?:can't|cannot) allocate memory|not enough memory|bad_alloc|ALLOC_FAILED", re.I
)


@contextmanager
def wrap_machine_errors() -> Iterator[None]:
    """Do something; where a disk refuses it, or memory is too small for it, that is an error of ours.

    Raises:
        MateError: the disk is full, or not ours to write, or there is too little memory.
    """
    try:
        yield
    except Exception as error:
        if refused := find_machine_error(error):
            raise refused from error
        raise


def find_machine_error(error: BaseException) -> MateError | None:
    """Name the resource that the machine lacks, where an error of any library comes of that."""
    if isinstance(error, MateError):
        return None
    if isinstance(error, OSError) and error.errno in REFUSALS:
        place = str(error.filename) if error.filename else None
        return MateError(shorten_reason(error), where=place, remedy=REFUSALS[error.errno])
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or (
            isinstance(cause, (RuntimeError, OSError)) and _NO_MEMORY.search(str(cause)[:2000])
        ):
            return MateError("out of memory", remedy=LOWER)
        cause = cause.__cause__
    return None


@contextmanager
def wrap_read_errors(path: Path | str, kind: type[MateError], problem: str, remedy: str) -> Iterator[None]:
    """Read a file; what goes wrong, in whichever library, is an error of ours that names the file.

    Raises:
        MateError: of that kind, or as it is where it is one of ours already.
    """
    try:
        yield
    except BaseException as error:  # a damaged file can make any library fail in any way, those in Rust by a panic
        is_panic = type(error).__name__ == "PanicException"
        if isinstance(error, MateError) or not (isinstance(error, Exception) or is_panic):
            raise
        if ours := known_cause(error):
            raise ours from error
        raise kind(f"{problem}: {shorten_reason(error)}", where=str(path), remedy=remedy) from error


def shorten_reason(error: BaseException) -> str:
    """Say why something failed, in one short line."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, MemoryError):
        return "it does not fit in memory"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not in {error.encoding.upper()}"
    if isinstance(error, KeyError) and error.args:
        return f"it has no {error.args[0]!r}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    told = str(getattr(error, "problem", None) or error)  # errors of YAML have theirs apart
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    return shorten(" ".join(lines[:2]) or type(error).__name__, 200, placeholder=" ...")
