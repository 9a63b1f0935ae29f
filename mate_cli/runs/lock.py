"""One writer for a run: whoever opens its folder to train holds a lock until it ends, in whichever way that is.

The system gives the lock of a process that was killed free, also over a network file system. Where a file system knows
no locks, or only those of its own machine, the time of the lock file tells: its holder touches it all the while.
"""

import errno
import os
import platform
import stat
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from mate_cli.errors import RunError
from mate_cli.files.io_errors import REFUSALS
from mate_cli.runs.liveness import is_alive, process_id

NAME = ".lock"
BEAT = 10.0
"""Seconds between two signs of life."""
SILENT = 60.0
"""Seconds without one after which a holder on another machine counts as gone."""
SETTLE = 0.5
"""Seconds after which the last of two that have written their names at once is known."""
BUSY = (errno.EACCES, errno.EAGAIN)


class LockedError(RunError):
    """A run that another process trains."""


@dataclass
class _Lock:
    """A lock of this process."""

    file: int
    ended: threading.Event = field(default_factory=threading.Event)


_held: dict[Path, _Lock] = {}


def acquire_lock(folder: Path) -> None:
    """Take the lock of a run's folder, unless this process has it already; it is never taken from a living process.

    Raises:
        LockedError: another process is at work there.
        RunError: the lock cannot be written.
    """
    place = folder.resolve()
    if place in _held:
        return
    try:
        file = _open_lock(place / NAME)
    except OSError as error:
        reason = "its .lock is a link" if error.errno == errno.ELOOP else (error.strerror or str(error)).lower()
        raise RunError(
            f"the run cannot be locked: {reason}",
            where=str(folder),
            remedy="Free space, or make the folder writable" if error.errno in REFUSALS else "Remove the .lock there",
        ) from error
    held = _held[place] = _Lock(file)
    threading.Thread(target=_beat, args=(held,), daemon=True).start()


def release_lock(folder: Path) -> None:
    """Give the lock of a run's folder free, where this process has it."""
    if held := _held.pop(folder.resolve(), None):
        held.ended.set()
        (folder / NAME).unlink(missing_ok=True)  # first: who opens it now finds that it is gone, and makes a new one
        os.close(held.file)


def _open_lock(path: Path) -> int:
    """Return the open lock file with this process's name in it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        try:
            _refuse_foreign(file)
            knows_locks = _lock(file, path)
            if not _is_same(file, path):  # its holder has ended meanwhile, and taken it away
                os.close(file)
                continue
            _refuse_living(file, path, knows_locks)
            _write(file)
            if not knows_locks:
                time.sleep(SETTLE)
                _refuse_living(file, path, knows_locks)
            return file
        except BaseException:
            os.close(file)
            raise


def _refuse_foreign(file: int) -> None:
    """Refuse what no process has made as its lock: a device, or another name of a file that lies elsewhere.

    Raises:
        OSError: it is one.
    """
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise OSError("its .lock is not a regular file")


def _lock(file: int, path: Path) -> bool:
    """Lock the open file; False where the file system cannot.

    Raises:
        LockedError: another process has locked it.
    """
    import fcntl

    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in BUSY:
            raise _busy(path, _content(file)) from error
        return False
    return True


def _is_same(file: int, path: Path) -> bool:
    try:
        return os.fstat(file).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _refuse_living(file: int, path: Path, knows_locks: bool) -> None:
    """Refuse a file that carries the name of somebody else who still gives signs of life.

    Raises:
        LockedError: saying who.
    """
    content = _content(file)
    host, _, process = content.partition(" ")
    if not content or content == _name_holder():
        return
    if host == platform.node():
        alive = not knows_locks and is_alive(process)  # with its lock free, a process of this machine has ended
    else:
        before = os.fstat(file).st_mtime
        os.utime(file)  # what time it is for the file system, which may not be what this machine thinks
        alive = os.fstat(file).st_mtime - before < SILENT
        os.utime(file, (before, before))
    if alive:
        raise _busy(path, content)


def _busy(path: Path, content: str) -> LockedError:
    host, _, process = content.partition(" ")
    who = f" (process {process.partition(':')[0]} on {host})" if process else ""
    return LockedError(
        f"another process is training this run{who}",
        where=str(path.parent),
        remedy="Wait for it, or stop it; a process killed on another machine is noticed after a minute",
    )


def _name_holder() -> str:
    return f"{platform.node()} {process_id()}"


def _content(file: int) -> str:
    return os.pread(file, 1000, 0).decode(errors="replace")


def _write(file: int) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, _name_holder().encode(), 0)


def _beat(held: _Lock) -> None:
    """Touch the lock file again and again."""
    while not held.ended.wait(BEAT):
        try:
            os.utime(held.file)
        except OSError:  # it was closed, or its disk has gone
            return
