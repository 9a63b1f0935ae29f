"""Reading of metrics.jsonl, the file of the logged metrics of a run."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from mate_cli.errors import RunError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.files.safe_load import read_lines
from mate_cli.runs.record import RunFolder, RunRecord

Row = dict[str, float]


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a metrics file.

    Return an empty list if the file is missing. Invalid lines, such as a truncated last line, are skipped.

    Raises:
        RunError: the path is not a regular file, or the file is too large.
    """
    with wrap_file_errors(path, RunError, "cannot be read", "Move it away"):
        return list(read_lines(path)) if path.exists() else []


def rows_until(path: Path, step: int, log_every: int | None) -> tuple[list[Row], str]:
    """Read the rows of a metrics file up to a step, and check the file for lost rows.

    Args:
        path: metrics file.
        step: last step of the rows to read.
        log_every: steps between two rows, used to detect lost rows. None for no check.

    Returns:
        The rows, and a description of the first problem of the file; empty if there is no problem.
    """
    try:
        entries = read_rows(path)
        # The last line may be truncated if the run was killed.
        lines = path.read_bytes().split(b"\n")[:-1] if entries else []
    except RunError as error:
        return [], error.problem
    rows = [row for row in entries if isinstance(row.get("step", ""), (int, type(None)))]
    earlier = [row for row in rows if (row["step"] or 0) <= step]
    if foreign := max(len(list(filter(bytes.strip, lines))), len(entries)) - len(rows):
        return earlier, f"{foreign} lines are no rows and are left out"
    steps = [0, *sorted(row["step"] for row in earlier if row["step"]), step]
    ranges = [(start, end) for start, end in pairwise(steps) if log_every and end - start > log_every]
    return earlier, f"rows of steps {ranges[0][0] + 1} to {ranges[0][1] - 1} are lost" if ranges else ""


def seconds_so_far(folder: RunFolder, record: RunRecord) -> float:
    """Return the wall time in seconds for which a run has been trained.

    For a killed run, the time ends at its last sign of activity. This is the maximum of the time in the record, the
    time of the latest row of metrics.jsonl, and the sum of the times of all stages.

    Raises:
        RunError: both the record and the configuration of a stage are damaged.
    """
    rows: list[Row] = []
    # `MetricsFile` reports a damaged file when the run is resumed.
    with suppress(RunError):
        rows = read_rows(folder.path / "metrics.jsonl")
    # Names with a leading dot are temporary folders of other processes.
    stages = [RunFolder(path.parent) for path in folder.path.glob("[!.]*/record.json")]
    in_stages = sum(seconds_so_far(stage, stage.read_record()) for stage in stages)
    return max(record.wall_seconds, in_stages, *(row["time"] for row in rows if type(row.get("time")) in (int, float)))
