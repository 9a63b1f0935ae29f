"""Atomic writes of files and folders.

A file is written to a temporary folder next to its target and then moved to the target. Readers never see a partial
file. Because the temporary folder is new, additional files that a library writes are
removed with it, and nothing is written through an existing symbolic link.
"""

from __future__ import annotations

import fcntl
import glob
import itertools
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mate_cli.errors import ConfigError, RunError
from mate_cli.files.io_errors import wrap_file_errors

DIGITS = 12
"""Hexadecimal digits in the name of a temporary folder."""
DRAFT = re.compile(rf"\.(?P<target>.+)\.[0-9a-f]{{{DIGITS}}}\.draft")
MAX_NAME = 80
"""Maximum bytes of the file name that the name of its temporary folder contains."""


def temporary_path(target: Path) -> Path:
    """Return a unique path next to `target` for a temporary folder in which to write `target`."""
    return target.with_name(f".{_short_name(target)}.{secrets.token_hex(DIGITS // 2)}.draft")


def _short_name(target: Path) -> str:
    return os.fsencode(target.name)[:MAX_NAME].decode(errors="ignore")


def check_writable(file: Path, where: str) -> None:
    """Check that a file can be written, without creating it.

    Args:
        file: path of the file. Its parent folders may be missing.
        where: command-line argument, for the error message.

    Raises:
        ConfigError: the path is a folder, or its nearest existing parent folder is not writable.
    """
    with wrap_file_errors(where, ConfigError, "cannot be written", "Choose another path"):
        if file.is_dir():
            raise ConfigError("is a folder", where=where, remedy=f"Name a file in it: {file / 'answers.json'}")
        folder = next(parent for parent in file.absolute().parents if parent.exists())
        tempfile.TemporaryFile(dir=folder).close()


def check_inside(folder: Path, target: Path) -> None:
    """Check that a file is inside a folder after symbolic links are resolved.

    Raises:
        RunError: the file is outside `folder`, or a parent folder is a link that leads out of `folder`.
    """
    root = os.path.realpath(folder)
    for parent in reversed([parent for parent in target.parents if parent != folder and parent not in folder.parents]):
        if not Path(os.path.realpath(parent)).is_relative_to(root):
            if parent.is_symlink():
                raise RunError("is a link that leads out of this folder", where=str(parent), remedy="Remove the link")
            raise RunError(f"is outside of {folder}", where=str(target))


def make_folders(folder: Path) -> list[Path]:
    """Create a folder and its missing parents.

    Return the created folders, innermost first.

    Raises:
        OSError: a folder cannot be created.
    """
    folders: list[Path] = []
    for path in () if folder.is_dir() else reversed((folder, *folder.parents)):
        try:
            path.mkdir()
        except OSError:  # the folder may exist, or another process may have just created it
            if not path.is_dir():
                raise
        else:
            folders.insert(0, path)
    return folders


@contextmanager
def replace_file(target: Path) -> Iterator[Path]:
    """Yield a temporary path for a file or folder, then move this file or folder to `target`.

    The move is atomic. After an error inside the context, the temporary path is deleted and `target` is unchanged.

    If `target` is an existing folder, files with the same names are replaced and all other files stay. Temporary
    folders that killed processes have left for the same target are removed.

    Raises:
        OSError: the file system does not allow the write.
        RunError: `target` is a device or a pipe.
    """
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise RunError("is not a regular file", where=str(target), remedy="Choose another path")
    target.parent.mkdir(parents=True, exist_ok=True)
    for stale in target.parent.glob(f".{glob.escape(_short_name(target))}.{'[0-9a-f]' * DIGITS}.draft"):
        _remove_left(stale)
    draft, lock = _make_draft(target)
    try:
        output = draft / target.name
        yield output
        _sync(*(path for path in (output, *output.rglob("*")) if path.is_file()))
        if output.is_dir() and target.is_dir():
            for file in output.iterdir():
                file.replace(target / file.name)
        else:
            output.replace(target)
        # Some file systems cannot sync folders.
        with suppress(OSError):
            _sync(target.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        os.close(lock)


def _sync(*paths: Path) -> None:
    """Flush files or a folder to disk with fsync.

    Without fsync, a renamed file may be empty after a power failure.
    """
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _make_draft(target: Path) -> tuple[Path, int]:
    """Create a temporary folder and lock it, to show other processes that it is in use.

    Returns:
        The folder, and the file descriptor of its lock.
    """
    while True:
        draft = temporary_path(target)
        draft.mkdir()
        # FileNotFoundError: before the lock was held, another process removed the folder as stale.
        with suppress(FileNotFoundError):
            lock = os.open(draft, os.O_RDONLY)
            # Some file systems have no locks. There a temporary folder stays after a kill.
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
            if draft.exists():
                return draft, lock
            os.close(lock)


def number_names(path: Path) -> Iterator[Path]:
    """Yield `path`, `path-2`, `path-3` and so on, to find an unused name."""
    yield path
    yield from (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))


def write_text(target: Path, text: str, remedy: str = "Choose another path") -> Path:
    """Write a text file atomically.

    Args:
        target: path of the file.
        text: content, encoded as UTF-8.
        remedy: hint in the error message.

    Raises:
        RunError: the file cannot be written. An existing file is unchanged.
    """
    with wrap_file_errors(target, RunError, "cannot be written", remedy), replace_file(target) as draft:
        # File names in the text may contain bytes that UTF-8 cannot encode.
        draft.write_text(text, encoding="utf-8", errors="replace")
    return target


def find_files(folder: Path, *names: str) -> list[Path]:
    """Find files by name in a folder and its subfolders, except in temporary folders."""
    folders = [(Path(path), files) for path, _, files in os.walk(folder)]
    return [path / name for path, files in folders if not DRAFT.fullmatch(path.name) for name in names if name in files]


def remove_drafts(folder: Path) -> set[str]:
    """Remove the temporary folders below a folder that ended processes have left.

    Temporary folders in use remain. Symbolic links are not followed.

    Returns:
        The names of the files that processes are writing, truncated to `MAX_NAME` bytes.
    """
    in_use = set[str]()
    for path, names, _ in os.walk(folder):
        for draft in filter(None, map(DRAFT.fullmatch, names)):
            _remove_left(Path(path, draft[0]))
            if os.path.lexists(Path(path, draft[0])):
                in_use.add(draft["target"])
    return in_use


def _remove_left(draft: Path) -> None:
    """Remove a temporary folder if no process uses it."""
    # OSError: a process holds its lock, or it is missing, not a folder, or not accessible.
    with suppress(OSError):
        lock = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(draft, ignore_errors=True)
        finally:
            os.close(lock)
