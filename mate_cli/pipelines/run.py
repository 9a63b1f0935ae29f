"""A run in progress: its folder, its record and where its numbers go, kept true however the work ends."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from mate_cli.errors import known_cause
from mate_cli.files.door import refusal
from mate_cli.runs import ranks
from mate_cli.runs.callbacks.checkpoints import Interrupted
from mate_cli.runs.configuration import Logger
from mate_cli.runs.record import Clock, RunFolder, RunRecord, now
from mate_cli.runs.tracking import MetricsFile, Trackers, WandbTracker, seconds_so_far
from mate_cli.terminal.console import Console
from mate_cli.terminal.streams import copied_streams
from mate_cli.terminal.transcript import Transcript


@dataclass
class Run:
    """A run in progress, or a finished one.

    Args:
        record: its summary, written at every change of status.
        clock: seconds of wall time, earlier parts included.
        transcript: what the user has seen.
        trackers: where its numbers go; opened once there are some.
    """

    folder: RunFolder
    record: RunRecord
    clock: Clock
    console: Console
    transcript: Transcript
    trackers: Trackers = field(default_factory=Trackers)

    @classmethod
    def of(cls, folder: RunFolder, record: RunRecord) -> Run:
        """The run in a folder, with the time that it has taken so far."""
        clock = Clock(seconds_so_far(folder, record))
        transcript = Transcript()
        return cls(folder, record, clock, Console(copy=transcript.write), transcript)

    def open_trackers(self, logger: Logger, config: Mapping[str, Any], step: int | None = None) -> None:
        """Open metrics.jsonl, and W&B where it is asked for, in the first process; rows after `step` are dropped."""
        if not ranks.is_first():
            return
        self.trackers.add(MetricsFile(self.folder, step))
        if logger.kind == "wandb":
            dashboard = WandbTracker(self.folder, self.record, config, logger.model_dump())
            self.trackers.add(dashboard)
            self.transcript.hand_to(dashboard.line)


@contextmanager
def recorded(run: Run) -> Iterator[None]:
    """Keep the record true however the work ends, and close the trackers."""
    record = run.record

    try:
        with copied_streams(run.transcript.write):
            yield
        record.status = "finished"
    except (Interrupted, KeyboardInterrupt) as error:
        record.status, record.reason = "interrupted", "stopped by the user or the scheduler"
        raise KeyboardInterrupt from error
    except BaseException as error:
        told = known_cause(error) or refusal(error) or error  # Hydra wraps what a class refuses that it builds
        record.status, record.reason = "failed", f"{type(told).__name__}: {told}"[:500]
        raise
    finally:
        record.finished, record.wall_seconds = now(), round(run.clock(), 1)
        record.peak_memory_mb = max(record.peak_memory_mb, peak_memory_mb())
        run.folder.write_record(record)
        run.transcript.write(": ".join(filter(None, [record.status, record.reason])) + "\n")
        run.trackers.close(record.summary(), 0 if record.status == "finished" else 1)


def peak_memory_mb() -> float:
    """The most memory that this process has held: of the GPU where it has used one, else its own."""
    if on_gpu := torch.cuda.max_memory_allocated():
        return round(on_gpu / 2**20, 1)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)
