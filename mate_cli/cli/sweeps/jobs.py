"""One job of a sweep: a run that is trained by `mate run` in a process of its own.

The job's folder and record are made before its process starts: whatever becomes of it, the record says so.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig

from mate_cli.cli.app import PROGRAM
from mate_cli.cli.sweeps.stopping import StopHandler, ignore_interrupts, is_stopped
from mate_cli.errors import MateError
from mate_cli.files.io_errors import LOWER
from mate_cli.quoting import format_command

if TYPE_CHECKING:
    from mate_cli.pipelines.run_spec import RunSpec
    from mate_cli.runs.record import RunFolder, RunRecord

FAILED = None
"""Result of a job that has none: a search counts it as a failed trial and goes on."""
KILLED = "killed"
"""Result of a job whose process was killed: a search tries its values again."""
ARRIVAL = 600.0
"""Seconds that processes on other machines wait until the first of a job has made its folder."""


def spec_file(jobs: Path, number: int) -> Path:
    """Return where the specification of a job is kept until it is begun."""
    return jobs / f"{number}.yaml"


def run_job(_: Any, jobs: str, trust: Sequence[str], sweep: int | None) -> float | str | None:  # noqa: ANN401 - Hydra's
    """Run the job of this number, unless it is wrong, done, or being done.

    Args:
        jobs: the folder of the sweep's jobs.
        trust: what it may be told to trust.
        sweep: the process of the sweep, with which those end that run its jobs; None where they may outlive it.

    Returns:
        The monitored metric, for a search; None for a job without one, `KILLED` after its process was killed.
    """
    from mate_cli.files.safe_load import load_json
    from mate_cli.pipelines.run_spec import load_spec
    from mate_cli.runs.lock import end_with
    from mate_cli.runs.record import RunFolder

    if sweep and os.getpid() != sweep:
        end_with(sweep)
    notes, number = RunFolder(Path(jobs)), int(HydraConfig.get().job.num)
    if not spec_file(notes.path, number).exists():
        return FAILED
    options = [f"trust={word}" for word in trust]
    if is_follower():
        folder = _wait_for_folder(notes.path / f"{number}.json")
        subprocess.run([*PROGRAM, "run", folder, *options], check=False)
        return FAILED
    note = load_json(notes.path / f"{number}.json")
    ignore_interrupts()
    if is_stopped(notes.path):
        notes.write_json(f"{number}.json", {**note, "status": "interrupted", "reason": "the sweep was stopped"})
        return FAILED
    try:
        spec = load_spec(spec_file(notes.path, number), trust)
        run, record, before = open_job(spec, number, note["folder"])
    except MateError as error:
        notes.write_json(f"{number}.json", {**note, "reason": str(error), "problem": [error.where, error.problem]})
        return FAILED
    note |= {"folder": str(run.path.absolute()), "before": before}
    notes.write_json(f"{number}.json", note)
    if record.status == "running" and not before:
        record.sweep = notes.path.parent.name
        run.write_record(record)

        def begun(process: str) -> None:
            notes.write_json(f"{number}.json", {**note, "process": process})

        ended, reason = follow_job(run, [*PROGRAM, "run", str(run.path), *options], record.overrides, begun)
        record = ended or record
        if ended is None:  # it was refused, and has left nothing
            notes.write_json(f"{number}.json", {**note, "folder": None, "reason": reason})
        if StopHandler.current and StopHandler.current.asked:
            raise KeyboardInterrupt
    return _result_of(record)


def _result_of(record: RunRecord) -> float | str | None:
    from mate_cli.metrics.specs import result_of

    if record.status == "finished":
        result = result_of(record.monitor, record.metrics)
        return result.value if result else FAILED
    return KILLED if record.status == "failed" and str(record.reason).startswith(KILLED) else FAILED


def open_job(spec: RunSpec, number: int, begun: str | None = None) -> tuple[RunFolder, RunRecord, bool]:
    """Open the folder of a job and leave its configuration and record in it.

    Args:
        spec: what it trains.
        number: of the job.
        begun: the folder that it has already, where a scheduler starts it again.

    Returns:
        Folder, record, and whether it is finished already or being trained by another process.

    Raises:
        RunError: it cannot be resumed, or its folder cannot be made.
    """
    from mate_cli.pipelines.run_spec import prepare_run
    from mate_cli.runs.folders import find_same, is_running

    if begun and Path(begun).is_dir():
        spec = replace(spec, resume=begun)
    if spec.resume == "missing":
        same = find_same(spec.parent, spec.values(), spec.code)
        if same and is_running(same):
            return same, same.read_record(), True
    folder, record = prepare_run(spec, number)
    return folder, record, record.status == "finished"


def follow_job(
    folder: RunFolder, command: Sequence[str], overrides: Sequence[str], begun: Callable[[str], object]
) -> tuple[RunRecord | None, str]:
    """Train a job's run in a process of its own, whose stderr is kept; complete the record if that could not.

    Args:
        folder: of the run.
        command: that trains it.
        overrides: what it was resolved from, for people.
        begun: takes the process, as `runs/lock.py` names it, with its machine.

    Returns:
        The record, and why it ended; no record where the run was refused.
    """
    from mate_cli.runs.lock import LAUNCHER, entrust_lock, process_name, release_lock

    errors = folder.remember("stderr.txt")
    print(f"job: {format_command('mate', 'train', *overrides)}", flush=True)
    # A file, not a pipe: a killed process may leave children behind that would keep a pipe open.
    errors.unlink(missing_ok=True)  # it may be a link
    with (
        errors.open("x+b") as file,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
            env={**os.environ, **entrust_lock(folder.path), LAUNCHER: str(os.getpid())},
        ) as process,
    ):
        begun(f"{platform.node()} {process_name(process.pid)}")
        try:
            code = process.wait()
        except KeyboardInterrupt:  # for the second time: it may hang
            process.kill()
            process.wait()
            raise
        file.seek(0)
        stderr = file.read().decode(errors="replace")
    if code:
        sys.stderr.write(stderr)
    reason = end_reason(code, stderr)
    record = folder.read_record()
    if record.status == "running" and code == MateError.exit_code:  # refused: that process has left it as it was
        folder.undo()
        return None, reason
    if record.status == "running":
        record.status, record.reason = "failed", reason
        folder.write_record(record)
    release_lock(folder.path)
    return record, reason


def is_follower() -> bool:
    """Say whether Slurm has started several processes for this job, and this is not the first."""
    return os.environ.get("SLURM_STEP_NUM_TASKS", "1") != "1" and os.environ.get("SLURM_PROCID", "0") != "0"


def _wait_for_folder(note: Path) -> str:
    """Return the folder of a job once the first process has made it.

    Raises:
        RunError: it has made none.
    """
    from mate_cli.errors import RunError
    from mate_cli.files.safe_load import load_json

    until = time.monotonic() + ARRIVAL
    while time.monotonic() < until:
        if folder := load_json(note).get("folder"):
            return str(folder)
        time.sleep(1)
    raise RunError("the first process of this job did not create a run folder", where=str(note))


def end_reason(code: int, stderr: str) -> str:
    """Return why a process ended that could not write its record: its last error, or the signal that killed it."""
    if code < 0:
        return f"{KILLED} ({signal.Signals(-code).name}): out of memory, or killed manually. {LOWER}"
    message = stderr.rpartition("error: ")[2].strip() if "error: " in stderr else stderr.strip().rpartition("\n")[2]
    return " ".join(message.split())[:500] or f"ended with exit code {code}"
