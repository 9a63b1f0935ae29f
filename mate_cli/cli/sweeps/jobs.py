"""Jobs of a sweep. A job is one run, which `mate run` trains in a subprocess.

The run folder and record of a job are created before the subprocess starts, so that the record shows every outcome,
including a killed process.
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
from mate_cli.files.io_errors import REDUCE_MEMORY_HINT
from mate_cli.quoting import format_command

if TYPE_CHECKING:
    from mate_cli.pipelines.run_spec import RunSpec
    from mate_cli.runs.record import RunFolder, RunRecord

FAILED = None
"""Return value of a job without a metric. An optuna sweep records a failed trial and continues."""
KILLED = "killed"
"""Return value of a job whose process was killed. An optuna sweep repeats its trial."""
FOLDER_TIMEOUT_SECONDS = 600.0
"""Seconds that other ranks of a Slurm job wait until rank 0 has created the run folder."""


def spec_file(jobs: Path, number: int) -> Path:
    """Return the path of the YAML file that specifies the run of a sweep job.

    The file is written before the job starts.
    """
    return jobs / f"{number}.yaml"


def run_job(_: Any, jobs: str, trust: Sequence[str], sweep: int | None) -> float | str | None:  # noqa: ANN401 - Hydra's
    """Train the run of the current sweep job, unless it is invalid, finished or running.

    The job number is `hydra.job.num`. Hydra's launcher calls this task function once per job.

    Args:
        _: configuration that Hydra passes, unused.
        jobs: folder with the files of the sweep's jobs.
        trust: `trust=` values for `mate run`.
        sweep: process id of the sweep. The worker terminates when this process ends. None to let it continue.

    Returns:
        The monitored metric, which an optuna sweep optimizes. `FAILED` without a metric, `KILLED` if the process of the
            run was killed.
    """
    from mate_cli.files.safe_load import load_json
    from mate_cli.pipelines.run_spec import load_spec
    from mate_cli.runs.lock import terminate_with_parent
    from mate_cli.runs.record import RunFolder

    if sweep and os.getpid() != sweep:
        terminate_with_parent(sweep)
    notes, number = RunFolder(Path(jobs)), int(HydraConfig.get().job.num)
    if not spec_file(notes.path, number).exists():
        return FAILED
    options = [f"trust={name}" for name in trust]
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
        run, record, is_done = open_job(spec, number, note["folder"])
    except MateError as error:
        notes.write_json(f"{number}.json", {**note, "reason": str(error), "problem": [error.where, error.problem]})
        return FAILED
    note |= {"folder": str(run.path.absolute()), "before": is_done}
    notes.write_json(f"{number}.json", note)
    if record.status == "running" and not is_done:
        record.sweep = notes.path.parent.name
        run.write_record(record)

        def record_process(process: str) -> None:
            notes.write_json(f"{number}.json", {**note, "process": process})

        final_record, reason = follow_job(
            run, [*PROGRAM, "run", str(run.path), *options], record.overrides, record_process
        )
        record = final_record or record
        # The checks of the run failed, and its folder was removed.
        if final_record is None:
            notes.write_json(f"{number}.json", {**note, "folder": None, "reason": reason})
        if StopHandler.current and StopHandler.current.asked:
            raise KeyboardInterrupt
    return _result_of(record)


def _result_of(record: RunRecord) -> float | str | None:
    if record.status == "finished":
        return record.metrics.get(record.monitor, FAILED)
    return KILLED if record.status == "failed" and str(record.reason).startswith(KILLED) else FAILED


def open_job(spec: RunSpec, number: int, begun: str | None = None) -> tuple[RunFolder, RunRecord, bool]:
    """Create the run folder of a sweep job, or open the folder if the run exists already.

    Args:
        spec: specification of the run.
        number: job number.
        begun: run folder of the job if a scheduler restarts it. None for a new job.

    Returns:
        Run folder, record, and whether the run is already finished or running in another process.

    Raises:
        RunError: if the run cannot be resumed, or its folder cannot be created.
    """
    from mate_cli.pipelines.run_spec import prepare_run
    from mate_cli.runs.folders import find_same, is_running

    if begun and Path(begun).is_dir():
        spec = replace(spec, resume=begun)
    if spec.resume == "missing":
        existing_run = find_same(spec.parent, spec.values(), spec.code)
        if existing_run and is_running(existing_run):
            return existing_run, existing_run.read_record(), True
    folder, record = prepare_run(spec, number)
    return folder, record, record.status == "finished"


def follow_job(
    folder: RunFolder, command: Sequence[str], overrides: Sequence[str], begun: Callable[[str], object]
) -> tuple[RunRecord | None, str]:
    """Train the run of a sweep job in a subprocess, and wait until it ends.

    If the subprocess ends without a final status in the record, the status is written here.

    Args:
        folder: run folder. It also stores the stderr of the subprocess.
        command: command that trains the run.
        overrides: overrides of the run, for display only.
        begun: function that is called once with "HOST PROCESS", where PROCESS is an id by `lock.process_id`.

    Returns:
        The final record, and the reason for the end. The record is None if the checks of the run failed, in which case
            the folder is removed.
    """
    from mate_cli.runs.lock import LAUNCHER, delegate_lock, process_id, release_lock
    from mate_cli.runs.record import STOPPED

    errors = folder.back_up("stderr.txt")
    print(f"job: {format_command('mate', 'train', *overrides)}", flush=True)
    # Use a file, because subprocesses of a killed process could keep a pipe open.
    errors.unlink(missing_ok=True)  # The file may be a symbolic link.
    with (
        errors.open("x+b") as file,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
            env={**os.environ, **delegate_lock(folder.path), LAUNCHER: str(os.getpid())},
        ) as process,
    ):
        begun(f"{platform.node()} {process_id(process.pid)}")
        try:
            code = process.wait()
        except KeyboardInterrupt:  # Second interrupt: the process may hang.
            process.kill()
            process.wait()
            raise
        file.seek(0)
        stderr = file.read().decode(errors="replace")
    if code:
        sys.stderr.write(stderr)
    reason = end_reason(code, stderr)
    record = folder.read_record()
    # The checks of the run failed, so its process did not change the record.
    if record.status == "running" and code == MateError.exit_code:
        folder.undo()
        return None, reason
    if record.status == "running":
        record.status, record.reason = ("interrupted", STOPPED) if code == 128 + signal.SIGINT else ("failed", reason)
        folder.write_record(record)
    release_lock(folder.path)
    return record, reason


def is_follower() -> bool:
    """Return whether this process is a rank other than 0 of a sweep job on Slurm."""
    return os.environ.get("SLURM_STEP_NUM_TASKS", "1") != "1" and os.environ.get("SLURM_PROCID", "0") != "0"


def _wait_for_folder(note: Path) -> str:
    """Wait until rank 0 has created the run folder of a sweep job, and return its path.

    Args:
        note: file of the job, in which rank 0 records the folder.

    Raises:
        RunError: if rank 0 creates no folder within `FOLDER_TIMEOUT_SECONDS` seconds.
    """
    from mate_cli.errors import RunError
    from mate_cli.files.safe_load import load_json

    until = time.monotonic() + FOLDER_TIMEOUT_SECONDS
    while time.monotonic() < until:
        if folder := load_json(note).get("folder"):
            return str(folder)
        time.sleep(1)
    raise RunError("rank 0 of this job did not create a run folder", where=str(note))


def end_reason(code: int, stderr: str) -> str:
    """Return the reason why the training process of a sweep job failed.

    The reason is the last error in its stderr, or the signal that terminated it.

    Args:
        code: exit code of the process, negative for a signal.
        stderr: error output of the process.
    """
    if code < 0:
        return f"{KILLED} ({signal.Signals(-code).name}): out of memory, or killed manually. {REDUCE_MEMORY_HINT}"
    message = stderr.rpartition("error: ")[2].strip() if "error: " in stderr else stderr.strip().rpartition("\n")[2]
    return " ".join(message.split())[:500] or f"ended with exit code {code}"
