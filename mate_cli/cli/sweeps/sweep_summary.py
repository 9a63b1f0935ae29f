"""Print the summary of a sweep: status and monitored metric of each job."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from mate_cli.cli.sweeps.stopping import is_stopped
from mate_cli.errors import RunError
from mate_cli.files.safe_load import load_json, read_yaml
from mate_cli.metrics.specs import MonitoredResult, read_specs, result_of
from mate_cli.quoting import format_command
from mate_cli.reports.format import plural
from mate_cli.reports.terminal import STATE_STYLES, frame
from mate_cli.runs.record import read_entries
from mate_cli.terminal.console import report_console

STYLES = {**STATE_STYLES, "killed": "red"}


@dataclass(frozen=True)
class SweepJob:
    """The status and result of a sweep job, which form a row of the summary table.

    Args:
        number: job number.
        overrides: overrides of the job.
        status: recorded status, or `killed` for a run whose process ended without a final record.
        result: monitored metric with its value, None if the run has not finished.
        reason: reason for the status, "" without a reason.
        folder: run folder, None if none was created.
        before: whether the run was finished or running before this sweep.
    """

    number: int
    overrides: tuple[str, ...]
    status: str
    result: MonitoredResult | None
    reason: str
    folder: Path | None
    before: bool


def read_job(file: Path) -> SweepJob:
    """Read the JSON file of a sweep job, and the record of the job's run if it exists.

    Args:
        file: JSON file of the job.
    """
    from mate_cli.runs.lock import is_dead

    note = load_json(file)
    folder = Path(note["folder"]) if note["folder"] else None
    default_record = {"status": note.get("status", "failed"), "reason": note["reason"] or "its worker was lost"}
    if is_stopped(file.parent) and not (folder or note["reason"]):
        default_record = {"status": "interrupted", "reason": "the sweep was stopped before its first job"}
    record: dict[str, Any] = read_record(folder) if folder else default_record
    status, reason = record.get("status", "unknown"), record.get("reason") or ""
    if folder and is_dead(folder, record):
        status, reason = "killed", "its process no longer exists"
    metrics, specs = record.get("metrics") or {}, read_specs(record.get("specs") or {})
    result = result_of(record.get("monitor") or "", metrics, specs) if status == "finished" else None
    return SweepJob(
        number=note["job"],
        overrides=tuple(note["overrides"]),
        status=status,
        result=result,
        reason=reason.removeprefix("ConfigError: ") or ("before this sweep" if note["before"] else ""),
        folder=folder,
        before=note["before"],
    )


def read_record(folder: Path) -> dict[str, Any]:
    """Read the record of a run, or return a record with the status `failed` if it is damaged."""
    try:
        return read_entries(folder, "its record cannot be read", "")
    except RunError as error:
        return {"status": "failed", "reason": error.problem}


def is_complete(files: Sequence[Path]) -> bool:
    """Return whether a sweep has no job left to run.

    A job is complete if its run has finished, or was already running before the sweep.

    Args:
        files: JSON files of the jobs.
    """
    jobs = [read_job(file) for file in files]
    return all(job.status == "finished" or (job.status == "running" and job.before) for job in jobs)


def find_common_error(files: Sequence[Path]) -> str | None:
    """Return the error message if one error makes all jobs of a sweep invalid, or None.

    Such an error is in the settings of the sweep, not of a job.

    Args:
        files: JSON files of the jobs.
    """
    notes = [load_json(file) for file in files]
    problems = [note.get("problem") for note in notes]
    return notes[0]["reason"] if problems and problems[0] and problems.count(problems[0]) == len(problems) else None


def print_summary(
    files: Sequence[Path], problem: str | None = None, not_begun: int = 0, arguments: Sequence[str] = ()
) -> None:
    """Print a table of a sweep's jobs, and the number of jobs with each status.

    Args:
        files: JSON files of the jobs, sorted by job number.
        problem: error message of the launcher. None if it did not stop early.
        not_begun: number of planned jobs without a file.
        arguments: overrides of the sweep, for the printed command that runs missing jobs.
    """
    console = report_console()
    jobs = [read_job(file) for file in files]
    root = common_root(jobs)
    console.print("", summary_table(jobs, root), "", sep="\n")
    for line in reason_lines(jobs):
        console.print(Text(line), soft_wrap=True)
    console.print(f"run folders: {os.path.relpath(root)}", soft_wrap=True)
    counts = Counter(job.status for job in jobs)
    earlier_count = sum(job.before for job in jobs)
    earlier = f" ({earlier_count} before this sweep)" if earlier_count else ""
    status_counts = ", ".join(f"{count} {status}" for status, count in counts.items())
    console.print(f"{plural(len(jobs), 'job')}: {status_counts}{earlier}")
    if unstarted := not_begun + sum(job.folder is None and job.status == "interrupted" for job in jobs):
        total = plural(len(jobs) + not_begun, "job")
        console.print(f"{counts['finished']} of {total} finished, {unstarted} not started")
    if best_line := best_of_search(files[0].parents[1], [job.result for job in jobs if job.result]):
        console.print(best_line)
    if problem:
        console.print(Text(problem, style="red"))
    if problem or not_begun or not is_complete(files):
        overrides = [override for override in arguments if not override.startswith("resume=")]
        command = format_command("mate", "train", "-m", *overrides, "resume=missing") if arguments else ""
        general_hint = "To rerun missing jobs, run the same command with resume=missing"
        console.print(f"To run the missing jobs: {command}" if command else general_hint, soft_wrap=True)


def best_of_search(folder: Path, results: Sequence[MonitoredResult]) -> str | None:
    """Format the best hyperparameters and score of an optuna sweep.

    Return None for other sweeps.

    Args:
        folder: folder of the sweep, with `optimization_results.yaml`.
        results: monitored metrics of the finished jobs.
    """
    file = folder / "optimization_results.yaml"
    if not file.is_file() or not results:
        return None
    results_file = read_yaml(file, RunError, "Remove it")
    best_params = " ".join(f"{key.lstrip('+')}={value}" for key, value in results_file.get("best_params", {}).items())
    return f"best: {best_params} ({replace(results[0], value=results_file['best_value'])})" if best_params else None


def summary_table(jobs: Sequence[SweepJob], root: Path) -> Table:
    """Build the summary table of a sweep, with one row per job.

    Overrides that all jobs share are omitted.

    Args:
        jobs: jobs of the sweep.
        root: parent of all run folders, to which the displayed folders are relative.
    """
    common_overrides = set.intersection(*(set(job.overrides) for job in jobs)) if len(jobs) > 1 else set()
    table = frame("Sweep")
    table.add_column("Job", justify="right", no_wrap=True)
    table.add_column("Overrides", overflow="fold", min_width=10)
    table.add_column("Status", no_wrap=True)
    table.add_column("Result", justify="right", overflow="fold")
    table.add_column("Folder", no_wrap=True)
    for job in jobs:
        overrides = " ".join(item for item in job.overrides if item not in common_overrides)
        folder = str(job.folder.relative_to(root)).replace("/", "/\n") if job.folder else ""
        status = Text(job.status, style=STYLES.get(job.status, ""))
        table.add_row(str(job.number), Text(overrides), status, str(job.result or ""), Text(folder))
    return table


def reason_lines(jobs: Sequence[SweepJob]) -> Iterator[str]:
    """Describe why jobs of a sweep failed or ended early, one line per status and reason.

    Example: `jobs 2, 5 failed: out of memory`.
    """
    reasons: dict[tuple[str, str], list[str]] = {}
    for job in jobs:
        if job.reason:
            reasons.setdefault((job.status, job.reason), []).append(str(job.number))
    for (status, reason), numbers in reasons.items():
        yield f"job{'s' * (len(numbers) > 1)} {', '.join(numbers)} {status}: {reason}"


def common_root(jobs: Sequence[SweepJob]) -> Path:
    """Return the deepest common parent of the run folders of all jobs in a sweep.

    Return the working directory if no job has a run folder.
    """
    parents = [str(job.folder.parent) for job in jobs if job.folder]
    return Path(os.path.commonpath(parents)) if parents else Path.cwd()
