"""Removes runs that their user wants to be rid of: whole ones alone, and nothing behind a link."""

import shutil
from pathlib import Path

from mate_cli.errors import RunError
from mate_cli.files.atomic import name_draft
from mate_cli.runs.folders import is_running
from mate_cli.runs.lock import acquire_lock, release_lock
from mate_cli.runs.record import RunFolder, read_entries


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
