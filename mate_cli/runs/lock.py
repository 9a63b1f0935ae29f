"""Locks of run folders: the process that trains a run locks its folder until the run ends.

The operating system releases the lock of a killed process, on any machine or in any container. A killed process cannot
record its end, so the lock shows whether the run is alive.
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
from mate_cli.files.io_errors import wrap_file_errors

NAME = ".lock"
ENTRUSTED = "MATE_LOCKED"
"""Environment variable with the folder that the parent process has locked for this process."""
LOCK_WAIT_SECONDS = 0.5
"""Seconds to wait for a lock. A process that only checks whether a run is locked holds the lock for an instant."""
LAUNCHER = "MATE_LAUNCHER"
"""Environment variable with the process ID of the launcher of this process."""
EXIT_SECONDS = 120
"""Seconds to save a checkpoint after the launcher has ended."""


class LockedError(RunError):
    """Error for a run that another process is training."""


_held: dict[Path, tuple[FileLock, int]] = {}
"""Lock and file descriptor of each folder locked by this process. The descriptor stays valid if the folder is moved."""


def acquire_lock(folder: Path, patience: float = LOCK_WAIT_SECONDS) -> None:
    """Lock the folder of a run, so that no other process trains the run.

    Does nothing if this process or its parent (see `delegate_lock`) holds the lock.

    Args:
        folder: folder of a run or of an experiment.
        patience: seconds to wait for a lock of another process.

    Raises:
        LockedError: another process has locked the folder.
        RunError: the lock file cannot be written.
    """
    path = folder.resolve()
    if path in _held:
        return
    lock = FileLock(path / NAME, timeout=patience, thread_local=False)
    hint = "Make the folder writable, or remove the .lock there"
    with wrap_file_errors(folder, RunError, "the run cannot be locked", hint):
        try:
            if os.environ.get(ENTRUSTED) == str(path):
                # The thread acquires the lock if the parent process is killed.
                threading.Thread(target=_take_over, args=(lock,), daemon=True).start()
            else:
                lock.acquire()
        except Timeout as error:
            problem, hint = "another process is training this run", "Wait for it, or stop it"
            raise LockedError(problem, where=str(folder), remedy=hint) from error
        _held[path] = lock, os.open(path, os.O_RDONLY)


def _take_over(lock: FileLock) -> None:
    # OSError: the folder was deleted.
    with suppress(OSError):
        lock.acquire(timeout=-1, poll_interval=0.2)


def delegate_lock(folder: Path) -> dict[str, str]:
    """Return environment variables that let a child process use the run lock of this process."""
    return {ENTRUSTED: str(folder.resolve())}


def release_lock(folder: Path) -> None:
    """Release the lock of a run folder if this process holds the lock.

    The lock is released even if the folder was moved and its path now belongs to another run.
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
    """Raise `RunError` if a run folder was moved or deleted since this process locked it."""
    with suppress(OSError):
        _, descriptor = _held.get(folder.resolve(), (None, None))
        if descriptor is None or os.path.samestat(os.fstat(descriptor), folder.stat()):
            return
    problem = "this folder was moved or deleted while its run trained"
    raise RunError(problem, where=str(folder), remedy="Continue the run where it is now: mate run FOLDER")


def is_locked(folder: Path) -> bool:
    """Return whether a process is training the run in a folder."""
    try:
        file = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # On file systems without locks, the file is the lock.
        return True
    finally:
        os.close(file)
    return False


def process_id(number: int | None = None) -> str:
    """Return the PID and the start time of a process on this machine, as `pid:start`.

    The start time distinguishes the process from later processes with the same PID.

    Args:
        number: PID. None for this process.
    """
    number = number or os.getpid()
    return f"{number}:{_start(number)}"


@cache
def terminate_with_parent(launcher: int) -> None:
    """Send SIGTERM to this process once its parent process has ended.

    A killed launcher cannot send the signal itself. `EXIT_SECONDS` seconds after the signal this process exits.

    Args:
        launcher: PID of the parent process.
    """

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(EXIT_SECONDS)
        os._exit(MateError.exit_code)

    threading.Thread(target=watch, daemon=True).start()


def end_with_launcher() -> None:
    """Terminate this process once its launcher has ended.

    Does nothing without a launcher.
    """
    if launcher := os.environ.get(LAUNCHER):
        terminate_with_parent(int(launcher))


def is_dead(folder: Path, record: Mapping[str, Any]) -> bool:
    """Return whether the recorded status of a run is running although its process has ended."""
    return record.get("status") == "running" and not is_locked(folder)


def is_alive(process: str) -> bool:
    """Return whether a process, given as `pid:start`, is running on this machine.

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
    with suppress(OSError):
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        # "Z": a zombie has ended and waits until its parent reads its exit status.
        return "" if fields[0] == "Z" else fields[19]
    return ""
