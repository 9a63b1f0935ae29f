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
STATUSES = ("finished", "running", "interrupted", "failed", "killed")
NOTE = "note.txt"
"""File of a run in which its user's note stands."""
MAX_NOTE = 1 << 12


def list_runs(words: Sequence[str]) -> Iterator[str]:
    """Yield a line for each run below `outputs/train`, by experiment and start.

    Args:
        words: the name of an experiment, a status, and another folder of outputs, in any order.

    Raises:
        ConfigError: there is no such experiment, or no run of that kind.
    """
    from mate_cli.cli.shell.help import nearest
    from mate_cli.runs.index import read_index

    wanted = {word for word in words if word in STATUSES}
    others = [word for word in words if word not in STATUSES]
    train = Path(next((word for word in others if (Path(word) / "train").is_dir()), OUTPUTS)) / "train"
    names = [word for word in others if not (Path(word) / "train").is_dir()]
    known = sorted(folder.name for folder in train.iterdir() if folder.is_dir()) if train.is_dir() else []
    if unknown := next((name for name in names if name not in known), None):
        remedy = nearest(unknown, [*known, *STATUSES], prefix="mate list runs ") or "All: mate list runs"
        raise ConfigError(f"no runs of {unknown} below {train}", remedy=remedy)
    count = 0
    for experiment in names or known:
        rows = [(run, run.status_now(train / experiment)) for run in read_index(train / experiment)]
        rows = [(run, status) for run, status in rows if not wanted or status in wanted]
        count += len(rows)
        yield from [experiment] if rows else []
        yield from (_line(run, status, train / experiment / run.name) for run, status in rows)
    if not count:
        kind = " or ".join(sorted(wanted)) or "runs"
        raise ConfigError(f"nothing {kind} below {train}" if wanted else f"no runs below {train}", remedy="Train one")


def read_note(folder: Path) -> str:
    """Return the note of a run as one line; empty without one."""
    from mate_cli.files.safe_load import read_bytes

    with suppress(OSError, ValueError):
        return " ".join(read_bytes(folder / NOTE, largest=MAX_NOTE).decode(errors="replace").split())
    return ""


def describe_run(run: IndexedRun, status: str) -> str:
    """Return status, score, seed and settings of a run in words."""
    from mate_cli.metrics.specs.names import MetricName
    from mate_cli.runs.identity import telling_settings

    scores = [f"{MetricName.parse(name).title} {MetricName.parse(name).spec.text(v)}" for name, v in run.score.items()]
    settings = [f"{key}={value}" for key, value in telling_settings(run.settings)]
    return " · ".join([status, *scores, f"seed {run.seed}", *settings])


def _line(run: IndexedRun, status: str, folder: Path) -> str:
    note = read_note(folder)
    return f"  {folder}  {describe_run(run, status)}{f'  # {note}' if note else ''}"
