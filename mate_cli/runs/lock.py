"""Locks of runs: whoever makes or opens a folder to train holds its lock until the run ends.

The system frees the lock of a process that was killed, whichever machine or container that was on. A run without a lock
has signs of life alone. A killed process cannot say in its record that it has ended.
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
"""Variable with a folder that the process which has started this one has locked for it."""
PATIENCE = 0.5
"""Seconds to try for: who only looks whether a run is locked takes its lock for an instant."""
LAUNCHER = "MATE_LAUNCHER"
"""Variable with the number of the process that has started this one."""
ENDING = 120
"""Seconds that a process gets to save its state once the one that has started it is gone."""
SILENT_SECONDS = 1800
"""A running run that has no lock counts as dead when it has written nothing for so long."""


class LockedError(RunError):
    """A run that another process trains."""


_held: dict[Path, tuple[FileLock, int]] = {}
"""The lock of each folder that this process has locked, and a descriptor of the folder, wherever it is moved."""


def acquire_lock(folder: Path, patience: float = PATIENCE) -> None:
    """Lock the folder of a run, unless this process or the one that has started it for this purpose has locked it.

    Args:
        folder: of the run, or of the runs of an experiment.
        patience: seconds to wait for another process.

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
            # This process takes over if the other one is killed.
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
    with suppress(OSError):  # the folder is gone
        lock.acquire(timeout=-1, poll_interval=0.2)


def entrust_lock(folder: Path) -> dict[str, str]:
    """Return the environment of a process that is to train the run which this one has locked, and goes on to hold."""
    return {ENTRUSTED: str(folder.resolve())}


def release_lock(folder: Path) -> None:
    """Release the lock of a folder if this process holds it; another run may have taken the folder's path."""
    with suppress(OSError, KeyError):  # the working folder is gone, or the folder is not locked here
        lock, descriptor = _held.pop(folder.resolve())
        if lock.is_locked:
            with suppress(OSError):  # removed before the release: a waiting process sees that, and makes a new file
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


def process_id() -> str:
    """Name this process as `pid:start`; the start tells it from a later process with the same number."""
    return process_name(os.getpid())


def process_name(number: int) -> str:
    """Name a process of this machine as `pid:start`."""
    return f"{number}:{_start(number)}"


@cache
def end_with(launcher: int) -> None:
    """Stop this process, as by SIGTERM, when the one that has started it is gone; a killed one can tell nobody."""

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(ENDING)
        os._exit(MateError.exit_code)

    threading.Thread(target=watch, daemon=True).start()


def end_with_launcher() -> None:
    """Stop this process when the launcher that has started it is gone, if one has."""
    if launcher := os.environ.get(LAUNCHER):
        end_with(int(launcher))


def is_dead(folder: Path, record: Mapping[str, Any]) -> bool:
    """Say whether a run that its record calls running has lost its process."""
    if record.get("status") != "running":
        return False
    locked = is_locked(folder)
    return time.time() - last_written(folder) > SILENT_SECONDS if locked is None else not locked


def last_written(folder: Path) -> float:
    """Return the time when a run, or a stage of it, last wrote a number or its record, in seconds since the epoch."""
    files = find_files(folder, "record.json", "metrics.jsonl")
    return max((path.stat().st_mtime for path in files), default=0.0)


def is_alive(process: str) -> bool:
    """Say whether a process of this machine, as `process_id` names it, is at work."""
    number, _, start = process.partition(":")
    try:
        os.kill(int(number), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return _start(int(number)) == start


def _start(number: int) -> str:
    """Return the time when a process started, in ticks since the machine did; empty where the system does not tell."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]  # a zombie has ended and waits for its parent to notice
