"""Lines about runs: status, score, settings, folder and note of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.errors import ConfigError

if TYPE_CHECKING:
    from mate_cli.runs.index import IndexedRun

OUTPUTS = "outputs"
COMMANDS = {"train": "", "evaluate": ", evaluated"}
"""Folders of outputs whose runs are listed, and what stands behind the names of their experiments."""
STATUSES = ("finished", "running", "interrupted", "failed", "killed")
NOTE = "note.txt"
"""File of a run in which its user's note stands."""
MAX_NOTE = 1 << 12


def list_runs(words: Sequence[str]) -> Iterator[str]:
    """Yield a line for each run, and each evaluation of answers or checkpoints, by command, experiment and start.

    Args:
        words: the name of an experiment, a status, and another folder of outputs, in any order.

    Raises:
        ConfigError: there is no such experiment, or no run of that kind.
    """
    from mate_cli.cli.shell.help import nearest
    from mate_cli.runs.index import read_index

    wanted = {word for word in words if word in STATUSES}
    others = [word for word in words if word not in STATUSES]
    places = [word for word in others if any((Path(word) / command).is_dir() for command in COMMANDS)]
    outputs = Path(next(iter(places), OUTPUTS))
    names = [word for word in others if word not in places]
    parents = [parent for command in COMMANDS for parent in sorted((outputs / command).glob("*")) if parent.is_dir()]
    known = {parent.name for parent in parents}
    if unknown := next((name for name in names if name not in known), None):
        remedy = nearest(unknown, [*sorted(known), *STATUSES], prefix="mate list runs ") or "All: mate list runs"
        raise ConfigError(f"no runs of {unknown} below {outputs}", remedy=remedy)
    count = 0
    for parent in parents:
        rows = [(run, run.status_now(parent)) for run in read_index(parent)] if parent.name in (names or known) else []
        rows = [(run, status) for run, status in rows if not wanted or status in wanted]
        count += len(rows)
        yield from [f"{parent.name}{COMMANDS[parent.parent.name]}"] if rows else []
        yield from (_line(run, status, parent / run.name) for run, status in rows)
    if not count:
        kind = " or ".join(sorted(wanted)) or "runs"
        raise ConfigError(
            f"nothing {kind} below {outputs}" if wanted else f"no runs below {outputs}", remedy="Train one"
        )


def read_note(folder: Path) -> str:
    """Return the note of a run as one line; empty without one."""
    from mate_cli.files.safe_load import read_bytes

    with suppress(OSError, ValueError):
        return " ".join(read_bytes(folder / NOTE, largest=MAX_NOTE).decode(errors="replace").split())
    return ""


def describe_run(run: IndexedRun, status: str) -> str:
    """Return status, score, seed and settings of a run in words."""
    from mate_cli.metrics.specs import MetricName
    from mate_cli.runs.identity import telling_settings

    scores = [f"{MetricName.parse(name).title} {MetricName.parse(name).spec.text(v)}" for name, v in run.score.items()]
    settings = [f"{key}={value}" for key, value in telling_settings(run.settings)]
    return " · ".join([status, *scores, f"seed {run.seed}", *settings])


def _line(run: IndexedRun, status: str, folder: Path) -> str:
    note = read_note(folder)
    return f"  {folder}  {describe_run(run, status)}{f'  # {note}' if note else ''}"
