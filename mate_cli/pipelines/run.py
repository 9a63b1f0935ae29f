"""A run in progress: its folder, its record and where its numbers go, kept true however the work ends."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from mate_cli.errors import Interrupted, MateError, known_cause
from mate_cli.files.io_errors import find_machine_error
from mate_cli.runs import ranks
from mate_cli.runs.lock import release_lock
from mate_cli.runs.metric_rows import seconds_so_far
from mate_cli.runs.record import STOPPED, Clock, ReadOnlyFolder, RunFolder, RunRecord, now
from mate_cli.terminal.console import Console, Transcript
from mate_cli.terminal.streams import copy_streams


@dataclass
class Run:
    """A run in progress, or a finished one.

    Args:
        record: its summary, written at every change of status.
        clock: seconds of wall time, earlier parts included.
        transcript: what the user has seen.
        loggers: of Lightning, where its numbers go; opened once there are some, in the first process.
        close_loggers: ends them with the summary, the steps and an exit code.
    """

    folder: RunFolder
    record: RunRecord
    clock: Clock
    console: Console
    transcript: Transcript
    loggers: list[Any] = field(default_factory=list)
    close_loggers: Callable[[list[Any], Mapping[str, float], int, int], object] | None = None

    @classmethod
    def of(cls, folder: RunFolder, record: RunRecord) -> Run:
        """Open the run in a folder, with the time that it has taken so far."""
        clock = Clock(seconds_so_far(folder, record))
        transcript = Transcript()
        return cls(folder, record, clock, Console(copy=transcript.write), transcript)


def broadcast_folder(make: Callable[[], RunFolder]) -> RunFolder:
    """Make or open a folder in the first process; the others have it to read.

    Raises:
        RunError: one of them does not see it.
    """
    folder = ranks.broadcast_from_rank_zero(make)
    return folder if ranks.is_rank_zero() else ReadOnlyFolder(folder.path)


@contextmanager
def record_outcome(run: Run) -> Iterator[None]:
    """Keep the record true however the work ends, close loggers, free the run; a refusal undoes what was written."""
    record, refused, before = run.record, False, run.folder.metrics_sizes()

    try:
        with copy_streams(run.transcript.write):
            yield
        record.status = "finished"
    except (Interrupted, KeyboardInterrupt) as error:
        record.status, record.reason = "interrupted", STOPPED
        raise KeyboardInterrupt from error
    except BaseException as error:
        told = (
            known_cause(error) or find_machine_error(error) or error
        )  # Hydra wraps what a class refuses that it builds
        record.status, record.reason = "failed", f"{type(told).__name__}: {told}"[:500]
        refused = isinstance(told, MateError) and run.folder.metrics_sizes() == before
        raise
    finally:
        record.finished, record.wall_seconds = now(), round(run.clock(), 1)
        record.peak_memory_mb = max(record.peak_memory_mb, peak_memory_mb())
        if refused:
            run.folder.undo()
        else:
            run.folder.write_record(record)
        run.transcript.write(": ".join(filter(None, [record.status, record.reason])) + "\n")
        if run.close_loggers:
            code = 0 if record.status == "finished" else 1
            run.close_loggers(run.loggers, record.summary(), record.total_steps, code)
        release_lock(run.folder.path)


def peak_memory_mb() -> float:
    """Return the most memory that this process has held: of the GPU where it has used one, else its own."""
    if on_gpu := torch.cuda.max_memory_allocated():
        return round(on_gpu / 2**20, 1)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)
