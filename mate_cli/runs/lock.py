"""Locks of runs: a process that trains in a run folder holds its lock until the run ends.

The operating system releases the lock of a killed process, on any machine or in any container. A killed process cannot
record its end, so the lock shows whether the run is alive. Without a lock file only the time of its last write does.
"""

import fcntl
import os
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from mate_cli.errors import MateError, RunError
from mate_cli.files.atomic import find_files
from mate_cli.files.io_errors import REFUSALS

NAME = ".lock"
ENTRUSTED = "MATE_LOCKED"
"""Environment variable with the folder that the parent process has locked for this process."""
PATIENCE = 0.5
"""Seconds to wait for a lock: a process that only checks whether a run is locked takes the lock for an instant."""
LAUNCHER = "MATE_LAUNCHER"
"""Environment variable with the process ID of the launcher of this process."""
ENDING = 120
"""Seconds to save a checkpoint after the launcher has ended."""
SILENT_SECONDS = 1800
"""Seconds without a write after which a running run without a lock file counts as dead."""


class LockedError(RunError):
    """Error for a run that another process is training."""


_held: dict[Path, tuple[FileLock, int]] = {}
"""Lock and file descriptor of each folder locked by this process. The descriptor stays valid if the folder is moved."""


def acquire_lock(folder: Path, patience: float = PATIENCE) -> None:
    """Lock the folder of a run.

    Does nothing if this process or its parent (see `entrust_lock`) holds the lock.

    Args:
        folder: folder of a run or of an experiment.
        patience: seconds to wait for a lock of another process.

    Raises:
        LockedError: another process has locked it.
        RunError: the lock cannot be written.
    """
    place = folder.resolve()
    if place in _held:
        return
    lock = FileLock(place / NAME, timeout=patience, thread_local=False)
    try:
        if os.environ.get(ENTRUSTED) == str(place):
            # The thread acquires the lock if the parent process is killed.
            threading.Thread(target=_take_over, args=(lock,), daemon=True).start()
        else:
            lock.acquire()
        _held[place] = lock, os.open(place, os.O_RDONLY)
    except Timeout as error:
        remedy = "Wait for it, or stop it"
        raise LockedError("another process is training this run", where=str(folder), remedy=remedy) from error
    except OSError as error:
        remedy = "Free space, or make the folder writable" if error.errno in REFUSALS else "Remove the .lock there"
        problem = f"the run cannot be locked: {(error.strerror or str(error)).lower()}"
        raise RunError(problem, where=str(folder), remedy=remedy) from error


def _take_over(lock: FileLock) -> None:
    # OSError: the folder was deleted.
    with suppress(OSError):
        lock.acquire(timeout=-1, poll_interval=0.2)


def entrust_lock(folder: Path) -> dict[str, str]:
    """Return environment variables that let a child process use the run lock of its parent."""
    return {ENTRUSTED: str(folder.resolve())}


def release_lock(folder: Path) -> None:
    """Release the lock of a folder if this process holds it.

    Another run may have the path of the folder now.
    """
    # OSError: the working directory was deleted. KeyError: this process has not locked the folder.
    with suppress(OSError, KeyError):
        lock, descriptor = _held.pop(folder.resolve())
        if lock.is_locked:
            # The file is removed before the release: a waiting process notices this and creates a new file.
            with suppress(OSError):
                os.unlink(NAME, dir_fd=descriptor)
            lock.release()
        os.close(descriptor)


def check_in_place(folder: Path) -> None:
    """Raise `RunError` if a folder was moved or deleted since this process locked it."""
    with suppress(OSError):
        _, descriptor = _held.get(folder.resolve(), (None, None))
        if descriptor is None or os.path.samestat(os.fstat(descriptor), folder.stat()):
            return
    problem = "this folder was moved or deleted while its run trained"
    raise RunError(problem, where=str(folder), remedy="Continue the run where it is now: mate run FOLDER")


def is_locked(folder: Path) -> bool | None:
    """Return whether a process is training the run in a folder.

    Return None if there is no readable lock file.
    """
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


def process_id() -> str:
    """Return `pid:start` of this process.

    The start time distinguishes it from later processes with the same PID.
    """
    return process_name(os.getpid())


def process_name(number: int) -> str:
    """Return `pid:start` of a process on this machine."""
    return f"{number}:{_start(number)}"


@cache
def end_with(launcher: int) -> None:
    """Send SIGTERM to this process when its parent `launcher` has ended.

    A killed launcher cannot send signals itself.

    After `ENDING` seconds the process exits.
    """

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(ENDING)
        os._exit(MateError.exit_code)

    threading.Thread(target=watch, daemon=True).start()


def end_with_launcher() -> None:
    """Terminate this process when its launcher has ended. Does nothing without a launcher."""
    if launcher := os.environ.get(LAUNCHER):
        end_with(int(launcher))


def is_dead(folder: Path, record: Mapping[str, Any]) -> bool:
    """Return whether the record of a run says running although its process has ended."""
    if record.get("status") != "running":
        return False
    locked = is_locked(folder)
    if locked is not None:
        return not locked
    files = find_files(folder, "record.json", "metrics.jsonl")
    last_written = max((path.stat().st_mtime for path in files), default=0.0)
    return time.time() - last_written > SILENT_SECONDS


def is_alive(process: str) -> bool:
    """Return whether a process of this machine is running.

    Args:
        process: `pid:start`, as returned by `process_id`.
    """
    number, _, start = process.partition(":")
    try:
        os.kill(int(number), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return _start(int(number)) == start


def _start(number: int) -> str:
    """Return the start time of a process in clock ticks since boot.

    The result is empty if it is unknown or the process has ended.
    """
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    # "Z": a zombie has ended and waits until its parent reads its exit status.
    return "" if fields[0] == "Z" else fields[19]
