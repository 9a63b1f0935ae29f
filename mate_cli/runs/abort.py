"""Aborts of libraries, as some end the process where memory is short: no exception is raised, and no handler called."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mate_cli.errors import MateError
from mate_cli.files.door import LOWER

ABORTED = f"a library has aborted it, as for want of memory. {LOWER}."


@contextmanager
def leaving_on_abort(leave: Callable[[str], object]) -> Iterator[None]:
    """Do something before an abort ends this process, which then ends with one line and the exit code of errors.

    Args:
        leave: is given the reason.
    """

    def end(number: int) -> None:
        try:
            leave(ABORTED)
            os.write(2, f"error: {ABORTED}\n".encode())
        finally:
            os._exit(MateError.exit_code)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(end)
    try:
        install: Any = ctypes.CDLL(None).signal
    except (OSError, AttributeError, TypeError):  # elsewhere than on Unix
        yield
        return
    install.argtypes, install.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    before = install(signal.SIGABRT, ctypes.cast(handler, ctypes.c_void_p))
    try:
        yield
    finally:
        install(signal.SIGABRT, before)
