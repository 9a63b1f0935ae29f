"""Conversion of errors of file access and memory to `MateError`s that users understand.

Any failure of a library to read or write a file becomes one `MateError` that names the file.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten

from mate_cli.errors import MateError, known_cause

DISK_FULL_HINT, NO_ACCESS_HINT = "Free space, and run it again", "Check the permissions of the folder"
OS_ERROR_HINTS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), DISK_FULL_HINT),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), NO_ACCESS_HINT),
    errno.ENAMETOOLONG: "Use a shorter name",
}
"""Hints for the error numbers (errno) of full, read-only or inaccessible disks, and of long names."""


REDUCE_MEMORY_HINT = "Lower hardware.micro_batch or encoding.max_tokens"
_NO_MEMORY = re.compile(
    r"out of memory|(?:can't|cannot) allocate memory|not enough memory|bad_alloc|ALLOC_FAILED", re.I
)


def find_known_error(error: BaseException) -> MateError | None:
    """Return the `MateError` that explains an exception to the user, or None if unknown.

    A `MateError` in the chain of causes is returned unchanged. For a full or inaccessible disk and for too little
    memory, a new `MateError` with a hint is returned.
    """
    if mate_error := known_cause(error):
        return mate_error
    if isinstance(error, OSError) and error.errno in OS_ERROR_HINTS:
        path = str(error.filename) if error.filename else None
        return MateError(shorten_reason(error), where=path, remedy=OS_ERROR_HINTS[error.errno])
    cause: BaseException | None = error
    while cause is not None:
        names_memory = isinstance(cause, (RuntimeError, OSError)) and _NO_MEMORY.search(str(cause)[:2000])
        if names_memory or isinstance(cause, MemoryError):
            return MateError("out of memory", remedy=REDUCE_MEMORY_HINT)
        cause = cause.__cause__
    return None


@contextmanager
def wrap_file_errors(path: Path | str, kind: type[MateError], problem: str, remedy: str) -> Iterator[None]:
    """Raise a `MateError` with a hint if reading or writing a file fails in the context.

    The error message names the file and the reason.

    Args:
        path: file to read or write.
        kind: class of the raised error.
        problem: fault in the error message, such as "cannot be read", which precedes the reason.
        remedy: hint in the error message.

    Raises:
        MateError: an error of class `kind`. A `MateError`, raised or as the cause, is raised unchanged.
    """
    try:
        yield
    # A damaged file can cause any exception. A panic in a Rust library is a `BaseException`.
    except BaseException as error:
        is_panic = type(error).__name__ == "PanicException"
        if isinstance(error, MateError) or not (isinstance(error, Exception) or is_panic):
            raise
        if cause := known_cause(error):
            raise cause from error
        raise kind(f"{problem}: {shorten_reason(error)}", where=str(path), remedy=remedy) from error


def shorten_reason(error: BaseException) -> str:
    """Return the reason of an error as one line of at most 200 characters."""
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
    # Errors of PyYAML have the reason in `problem`.
    text = str(getattr(error, "problem", None) or error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return shorten(" ".join(lines[:2]) or type(error).__name__, 200, placeholder=" ...")
