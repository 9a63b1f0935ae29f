"""Signs of life of the process that trains a run: a killed one cannot say so in its record."""

import os
import signal
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mate_cli.errors import MateError
from mate_cli.runs.lock import is_locked

LAUNCHER = "MATE_LAUNCHER"
"""Variable with the number of the process that has started this one."""
ENDING = 120
"""Seconds that a process gets to save its state once the one that has started it is gone."""
SILENT_SECONDS = 1800
"""A running run that has no lock counts as dead when it has written nothing for so long."""


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


def is_dead(folder: Path, record: Mapping[str, Any]) -> bool:
    """Say whether a run that its record calls running has lost its process."""
    if record.get("status") != "running":
        return False
    locked = is_locked(folder)
    return time.time() - last_written(folder) > SILENT_SECONDS if locked is None else not locked


def last_written(folder: Path) -> float:
    """Return the time when a run, or a stage of it, last wrote a number or its record, in seconds since the epoch."""
    files = [path for name in ("record.json", "metrics.jsonl") for path in folder.glob(f"**/{name}")]
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
