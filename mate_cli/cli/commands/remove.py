"""`mate remove RUN ...`: remove runs for good, once their user has said so."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from mate_cli.cli.words import split_flags
from mate_cli.errors import ConfigError, RunError
from mate_cli.files.atomic import name_draft
from mate_cli.runs.folders import is_running
from mate_cli.runs.lock import acquire_lock, release_lock
from mate_cli.runs.record import RunFolder, read_entries

HELP = """Remove runs for good; asks first.

Usage: mate remove RUN ... [--yes]

Examples
  mate remove outputs/train/quickstart/2026-11-25_10-00-00_0
  mate remove outputs/train/quickstart/2026-11-25_* --yes

Only whole runs are removed that no process trains. --yes does not ask."""
YES = "--yes"


def run_plain(words: Sequence[str]) -> int:
    """Show runs and remove them; nothing is removed where one of them cannot be.

    Returns:
        0 where they are gone, 1 where the user would rather keep them.

    Raises:
        ConfigError: no run is named, or there is nobody to ask.
        RunError: one is no run, a link, a stage of another run, or being trained.
    """
    from mate_cli.cli.commands.list import describe_run, read_note
    from mate_cli.runs.folders import index_run

    flags, names = split_flags(words)
    if unknown := next((flag for flag in flags if flag != YES), None):
        raise ConfigError("unknown flag", where=unknown, remedy="Type mate remove --help")
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
        what = "this run" if len(folders) == 1 else f"these {len(folders)} runs"
        if input(f"Remove {what} for good? [y/N] ").strip().lower() not in ("y", "yes"):
            return 1
    for folder in folders:
        remove_run(folder)
    return 0


def check_removable(path: Path) -> None:
    """Refuse a folder that is no run of its own, or whose run is at work.

    Raises:
        RunError: it is a link, no run, a stage of another run, around the working folder, or being trained.
    """
    refused = ""
    if path.is_symlink():
        refused = "is a link"
    elif not all(file.is_file() and not file.is_symlink() for file in (path / "config.yaml", path / "record.json")):
        refused = "is not a run folder"
    elif (path.resolve().parent / "record.json").exists():
        refused = "is a stage of the run around it"
    elif Path.cwd().is_relative_to(path.resolve()):
        refused = "is around the working folder"
    elif "command" not in read_entries(path):
        refused = "is not a run folder"
    elif is_running(RunFolder(path)):
        refused = "is being trained"
    if refused:
        raise RunError(refused, where=str(path), remedy="Give folders of whole runs that no process trains")


def remove_run(path: Path) -> None:
    """Remove the folder of a run; it is first called by another name, so that nobody meets half of it.

    Raises:
        RunError: see `check_removable`; or the file system refuses it.
    """
    check_removable(path)
    acquire_lock(path)
    gone = name_draft(path)
    try:
        path.rename(gone)
        shutil.rmtree(gone)
    except OSError as error:
        raise RunError(f"cannot be removed: {error.strerror}", where=str(path), remedy="Make it writable") from error
    finally:
        release_lock(path)
