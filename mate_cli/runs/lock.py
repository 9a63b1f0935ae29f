"""One writer for a run: whoever makes or opens its folder to train holds a lock until the run ends.

The system frees the lock of a process that was killed, whichever machine or container that was on.
"""

import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from mate_cli.errors import RunError
from mate_cli.files.io_errors import REFUSALS

NAME = ".lock"
ENTRUSTED = "MATE_LOCKED"
"""Variable with a folder that the process which has started this one has locked for it."""
PATIENCE = 0.5
"""Seconds to try for: who only looks whether a run is locked takes its lock for an instant."""


class LockedError(RunError):
    """A run that another process trains."""


_held: dict[Path, FileLock] = {}


def acquire_lock(folder: Path) -> None:
    """Take the lock of a run's folder, unless this process has it, or that which has started it for this purpose.

    Raises:
        LockedError: another process is at work there.
        RunError: the lock cannot be written.
    """
    place = folder.resolve()
    if place in _held:
        return
    lock = FileLock(place / NAME, timeout=PATIENCE, thread_local=False)
    if os.environ.get(ENTRUSTED) == str(place):
        _held[place] = lock
        # It takes over should the other process be killed.
        threading.Thread(target=lock.acquire, kwargs={"timeout": -1, "poll_interval": 0.2}, daemon=True).start()
        return
    try:
        lock.acquire()
    except Timeout as error:
        remedy = "Wait for it, or stop it"
        raise LockedError("another process is training this run", where=str(folder), remedy=remedy) from error
    except OSError as error:
        remedy = "Free space, or make the folder writable" if error.errno in REFUSALS else "Remove the .lock there"
        problem = f"the run cannot be locked: {(error.strerror or str(error)).lower()}"
        raise RunError(problem, where=str(folder), remedy=remedy) from error
    _held[place] = lock


def entrust_lock(folder: Path) -> dict[str, str]:
    """Return the environment of a process that is to train the run which this one has locked, and goes on to hold."""
    return {ENTRUSTED: str(folder.resolve())}


def release_lock(folder: Path) -> None:
    """Give the lock of a run's folder free, where this process has it."""
    lock = _held.pop(folder.resolve(), None)
    if lock and lock.is_locked:
        (folder / NAME).unlink(missing_ok=True)  # first: who waits for it finds that it is gone, and makes a new one
        lock.release()


def is_locked(folder: Path) -> bool | None:
    """Say whether a process trains the run in a folder; None where nothing tells."""
    with suppress(OSError):
        file = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False
    return None
