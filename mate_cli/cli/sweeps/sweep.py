"""`mate train -m`: every job is a process of its own, so that none can take the others with it.

The job's folder and record are made before its process starts: whatever becomes of it, the record says so.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from mate_cli.cli.config.quoting import quoted
from mate_cli.cli.config.words import Word, of_job, parameters_for_sweeper
from mate_cli.cli.sweeps.stopping import MARK, Stopping, ignore_interrupts, is_stopped
from mate_cli.errors import ConfigError, MateError
from mate_cli.files.door import LOWER

if TYPE_CHECKING:
    from mate_cli.pipelines.plan import Plan
    from mate_cli.runs.record import RunFolder, RunRecord

FAILED = None
"""What a job without a result returns: a search counts it as a failed trial and goes on."""


class Bookkeeping(Callback):
    """Keeps in mind where the sweep of this process has its folder, and makes of its parameters what Hydra takes."""

    folder: Path | None = None

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Hydra calls this before it makes the jobs."""
        Bookkeeping.folder = Path(str(config.hydra.sweep.dir)).absolute()
        (Bookkeeping.folder / "jobs" / MARK).unlink(missing_ok=True)
        typed = {Word.parse(word).key for word in config.hydra.overrides.task}
        given = dict(config.hydra.sweeper.get("params") or {})
        parameters = {name: value for name, value in given.items() if Word.parse(name).key not in typed}
        if "params" in config.hydra.sweeper:
            with read_write(config.hydra), open_dict(config.hydra):
                config.hydra.sweeper.params = parameters_for_sweeper(parameters)


def run_sweep(start: Callable[[], object]) -> int:
    """Run a sweep to its end and print what became of its jobs.

    Returns:
        0 when every job has finished (or is being trained elsewhere), else 1.

    Raises:
        MateError: there is no sweep, for the configuration is wrong.
    """
    from mate_cli.cli.sweeps.submission import deaf_controllers, no_slurm
    from mate_cli.cli.sweeps.sweep_summary import all_well, common_mistake, print_summary

    Bookkeeping.folder, problem = None, None
    try:
        with Stopping(lambda: job_files(Bookkeeping.folder)), deaf_controllers():
            start()
    except (MateError, HydraException, OmegaConfBaseException):
        raise
    except Exception as error:  # whatever a launcher raises when a worker of its own is lost
        if not job_files(Bookkeeping.folder):
            raise (no_slurm(error) or error) from None
        problem = f"the launcher stopped early: {type(error).__name__}: {error}".splitlines()[0]
    finally:
        files = job_files(Bookkeeping.folder)
        mistake = common_mistake(files)
        if files and not mistake:
            print_summary(files, problem)
        if Bookkeeping.folder and (mistake or not files):
            remove_unbegun(Bookkeeping.folder, files)
    if mistake:
        raise MateError(mistake)
    return 0 if all_well(files) and not problem else 1


def job_files(folder: Path | None) -> list[Path]:
    """The files of a sweep's jobs, in order of their numbers."""
    return sorted((folder / "jobs").glob("*.json"), key=lambda path: int(path.stem)) if folder else []


def remove_unbegun(folder: Path, files: Sequence[Path]) -> None:
    """Remove what a sweep that began no job has written, and the folders that are empty without it."""
    for file in (*files, folder / "multirun.yaml"):
        file.unlink(missing_ok=True)
    for empty in (folder / "jobs", folder, folder.parent):
        with suppress(OSError):  # a folder of the user's holds other things
            empty.rmdir()


def run_job(config: DictConfig, typed: Sequence[str], folder: Path | None, program: Sequence[str]) -> float | None:
    """Run one job of a sweep in a process of its own, unless it is done or being done.

    Returns:
        The monitored metric, for a search; None for a job without one.
    """
    from mate_cli.cli.config.telling import telling
    from mate_cli.runs.record import RunFolder
    from mate_cli.runs.result import result_of

    hydra = HydraConfig.get()
    known = [*map("{}=".format, hydra.sweeper.get("params") or {}), *typed]
    overrides, number = of_job(hydra.overrides.task, known), int(hydra.job.num)
    flags = [f"--config-dir={folder}"] if folder else []
    words = [*program, *flags, *(one for one in overrides if Word.parse(one).key != "resume")]
    if is_follower():
        subprocess.run([sys.executable, *words], check=False)  # what Slurm started on other machines trains with it
        return FAILED
    note = {"job": number, "overrides": overrides, "folder": None, "before": False, "reason": None}
    notes = RunFolder(Path(str(hydra.sweep.dir)) / "jobs")
    ignore_interrupts()
    if is_stopped(notes.path):
        notes.write_json(f"{number}.json", {**note, "status": "interrupted", "reason": "the sweep was stopped"})
        return FAILED
    notes.write_json(f"{number}.json", note)
    try:
        plan = composed(overrides, folder)
        check_direction(plan)
        run, record, before = open_job(telling(plan, folder), number)
        note |= {"folder": str(run.path.absolute()), "before": before}
        notes.write_json(f"{number}.json", note)
    except MateError as error:  # what it would train is wrong, or a search looks the wrong way
        notes.write_json(f"{number}.json", {**note, "reason": str(error), "problem": [error.where, error.problem]})
        return FAILED
    if record.status == "running" and not before:

        def begun(process: str) -> None:
            notes.write_json(f"{number}.json", {**note, "process": process})

        record = follow_job(run, words, begun)
        if Stopping.current and Stopping.current.asked:
            raise KeyboardInterrupt
    found = result_of(record.monitor, record.metrics) if record.status == "finished" else None
    return found.value if found else FAILED


def composed(overrides: Sequence[str], folder: Path | None) -> Plan:
    """The plan of a job.

    Raises:
        ConfigError: nothing can be trained so.
    """
    from mate_cli.cli.config.mistakes import explained_errors
    from mate_cli.cli.config.plan import compose_plan

    with explained_errors("train", overrides):
        return compose_plan(overrides, folder)


def check_direction(plan: Plan) -> None:
    """Refuse a search that looks the wrong way.

    Raises:
        ConfigError: it minimises what is better when greater, or the other way round.
    """
    asked = HydraConfig.get().sweeper.get("direction")
    if asked is None:
        return
    from hydra.utils import get_class

    from mate_cli.metrics.specs.names import spec_to_follow

    judge: Any = get_class((plan.system or plan.last.config.task)["_target_"])
    wanted = "maximize" if spec_to_follow(judge.monitor).direction > 0 else "minimize"
    if str(getattr(asked, "name", asked)) != wanted:
        raise ConfigError(
            f"a search looks at {judge.monitor}, of which {'more' if wanted == 'maximize' else 'less'} is better",
            where="hydra.sweeper.direction",
            remedy=f"Add hydra.sweeper.direction={wanted}",
        )


def open_job(plan: Plan, number: int) -> tuple[RunFolder, RunRecord, bool]:
    """Open the folder of a job and leave a record in it.

    Returns:
        Folder, record, and whether it is finished already or being trained by another process.
    """
    from mate_cli.files.plain import to_yaml
    from mate_cli.pipelines.plan import open_plan
    from mate_cli.runs.folders import find_same, is_running
    from mate_cli.runs.lock import release

    outputs = Path(plan.last.config.paths.outputs)
    same = find_same(outputs, "train", plan.names.experiment, plan.values()) if plan.resume == "missing" else None
    if same and is_running(same):
        return same, same.read_record(), True
    folder, record = open_plan(plan, number)
    try:
        if record.status == "finished":
            return folder, record, True
        record.argv = ["mate", "train", *plan.overrides]
        folder.write_text("config.yaml", to_yaml(plan.values()))
        folder.write_record(record)
        return folder, record, False
    finally:
        release(folder.path)  # for the process that trains it


def follow_job(folder: RunFolder, words: Sequence[str], begun: Callable[[str], object]) -> RunRecord:
    """Train a job's run in a process of its own, whose stderr is kept; complete the record if that could not.

    Args:
        folder: of the run.
        words: the command, and what is typed after it.
        begun: is told the machine and the process.
    """
    from mate_cli.runs.liveness import process_name

    errors = folder.path / "stderr.txt"
    print(f"job: mate {' '.join(words[1:])}", flush=True)
    command = [sys.executable, *words, f"resume={quoted(str(folder.path))}"]
    # A file, not a pipe: a killed process may leave children behind that would keep a pipe open.
    errors.unlink(missing_ok=True)  # it may be a link
    with (
        errors.open("xb") as file,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=file, start_new_session=True) as process,
    ):
        begun(f"{platform.node()} {process_name(process.pid)}")
        try:
            code = process.wait()
        except KeyboardInterrupt:  # for the second time: it may hang
            process.kill()
            process.wait()
            raise
    said = errors.read_text(encoding="utf-8", errors="replace")
    if code:
        sys.stderr.write(said)
    record = folder.read_record()
    if record.status == "running":
        record.status, record.reason = "failed", end_reason(code, said)
        folder.write_record(record)
    return record


def is_follower() -> bool:
    """Whether Slurm has started several processes for this job, and this is not the first."""
    return int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1 and os.environ.get("SLURM_PROCID", "0") != "0"


def end_reason(code: int, said: str) -> str:
    """Why a process ended that could not write its record: its last error, or the signal that killed it."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}, by hand or for want of memory. {LOWER}"
    message = said.rpartition("error: ")[2].strip() if "error: " in said else said.strip().rpartition("\n")[2]
    return " ".join(message.split())[:500] or f"ended with exit code {code}"
