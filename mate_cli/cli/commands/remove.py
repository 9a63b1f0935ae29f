"""`mate remove RUN ...`: remove runs permanently, after confirmation."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from mate_cli.cli.overrides import split_flags
from mate_cli.errors import ConfigError, RunError
from mate_cli.files.atomic import temporary_path
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.runs.folders import is_running
from mate_cli.runs.lock import acquire_lock, release_lock
from mate_cli.runs.record import RunFolder, read_entries

HELP = """Delete runs permanently, after confirmation.

Usage: mate remove RUN ... [--yes]

Examples
  mate remove outputs/train/quickstart/2026-11-25_10-00-00_0
  mate remove outputs/train/quickstart/2026-11-25_* --yes

Only whole runs are removed that no process trains. --yes does not ask."""
YES = "--yes"


def run_plain(arguments: Sequence[str]) -> int:
    """Remove run folders after confirmation by the user.

    If one run cannot be removed, no run is removed.

    Args:
        arguments: run folders, and the flag `YES` to omit the confirmation.

    Returns:
        0 if the runs were removed, 1 if the user declined.

    Raises:
        ConfigError: if no run is named, or the input is no terminal, so that the user cannot confirm.
        RunError: if a folder cannot be removed, see `check_removable`.
    """
    from mate_cli.cli.commands.list import describe_run, read_note
    from mate_cli.runs.folders import index_run

    flags, names = split_flags(arguments)
    if unknown_flag := next((flag for flag in flags if flag != YES), None):
        raise ConfigError("unknown flag", where=unknown_flag, remedy="Type mate remove --help")
    folders = list(dict.fromkeys(Path(name.removeprefix("run=")) for name in names))
    for folder in folders:
        check_removable(folder)
    for folder in folders:
        run = index_run(folder)
        print(
            "  ".join(filter(None, [str(folder), describe_run(run, run.status_now(folder.parent)), read_note(folder)]))
        )
    if YES not in flags:
        if not sys.stdin.isatty():
            raise ConfigError("needs a terminal to ask", where="mate remove", remedy=f"Add {YES}")
        run_text = "this run" if len(folders) == 1 else f"these {len(folders)} runs"
        if input(f"Remove {run_text} permanently? [y/N] ").strip().lower() not in ("y", "yes"):
            return 1
    for folder in folders:
        remove_run(folder)
    return 0


def check_removable(path: Path) -> None:
    """Check that a folder contains a complete run which no process is training.

    Raises:
        RunError: if the folder is a link, no run, a stage of another run or contains the working directory, or if
            a process trains the run.
    """
    problem = ""
    if path.is_symlink():
        problem = "is a link"
    elif not all(file.is_file() and not file.is_symlink() for file in (path / "config.yaml", path / "record.json")):
        problem = "is not a run folder"
    elif (path.resolve().parent / "record.json").exists():
        problem = "is a stage of the run in its parent folder"
    elif Path.cwd().is_relative_to(path.resolve()):
        problem = "contains the working folder"
    elif "command" not in read_entries(path):
        problem = "is not a run folder"
    elif is_running(RunFolder(path)):
        problem = "is being trained"
    if problem:
        raise RunError(problem, where=str(path), remedy="Name folders of complete runs that are not running")


def remove_run(path: Path) -> None:
    """Delete a run folder.

    The folder is renamed first, so that no process reads a partial run.

    Raises:
        RunError: if the run cannot be removed (see `check_removable`), or the file system denies it.
    """
    check_removable(path)
    acquire_lock(path)
    temporary = temporary_path(path)
    try:
        with wrap_file_errors(path, RunError, "cannot be removed", "Make it writable"):
            path.rename(temporary)
            shutil.rmtree(temporary)
    finally:
        release_lock(path)
