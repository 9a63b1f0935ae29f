"""Files and folders that are written as drafts beside their place and then moved there: nobody ever sees half of one.

A draft is a folder of its own: what a library writes beside its file is gone with it, and nothing that lies there
already, such as a link, is written through.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from mate_cli.errors import ConfigError, RunError

DRAFT = re.compile(r"\.(?P<target>.+)\.[0-9a-f]{12}\.draft")
MAX_NAME = 80
"""Bytes of a file's name that its draft is called by."""
MAX_AGE = 86_400
"""Seconds after which a draft is nobody's, where the file system knows no locks of folders."""


def name_draft(target: Path) -> Path:
    """Return a folder of nobody else's, in which to write what then takes the place of a file or folder."""
    return target.with_name(f".{_short_name(target)}.{secrets.token_hex(6)}.draft")


def _short_name(target: Path) -> str:
    return os.fsencode(target.name)[:MAX_NAME].decode(errors="ignore")


def check_writable(file: Path, where: str) -> None:
    """Refuse a file that cannot be written, before any work; nothing is left there.

    Args:
        file: its place; folders that are not there yet would be made.
        where: what was typed.

    Raises:
        ConfigError: it is a folder, or its folder takes no files.
    """
    remedy = "Choose another place for it"
    try:
        if file.is_dir():
            raise ConfigError("is a folder", where=where, remedy=f"Name a file in it: {file / 'answers.json'}")
        folder = next(parent for parent in file.absolute().parents if parent.exists())
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", where=where, remedy=remedy) from error


def check_inside(folder: Path, target: Path) -> None:
    """Refuse a file whose folder is a link, or lies behind one, that leads out of `folder`, or is not in it at all.

    Raises:
        RunError: naming the link.
    """
    root = os.path.realpath(folder)
    for parent in reversed([parent for parent in target.parents if parent != folder and parent not in folder.parents]):
        if not Path(os.path.realpath(parent)).is_relative_to(root):
            if parent.is_symlink():
                raise RunError("is a link that leads out of this folder", where=str(parent), remedy="Remove the link")
            raise RunError(f"is outside of {folder}", where=str(target))


def make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it that are missing; return those that were made, the innermost first.

    Raises:
        OSError: one cannot be made.
    """
    folders: list[Path] = []
    for place in () if folder.is_dir() else reversed((folder, *folder.parents)):
        try:
            place.mkdir()
        except OSError:  # it may be there, or another process may just have made it
            if not place.is_dir():
                raise
        else:
            folders.insert(0, place)
    return folders


@contextmanager
def replace_file(target: Path) -> Iterator[Path]:
    """Give a place to write a file or a folder to; it takes that of the target once it is whole, else nothing is left.

    Of a folder that is there already, files of the same names are replaced, and others stay. What killed processes have
    left of the same target is removed.

    Raises:
        OSError: the disk refuses it.
        RunError: a device or a pipe is there, which others use.
    """
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise RunError("is no regular file", where=str(target), remedy="Choose another place")
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in _left_drafts(target.parent.absolute()):
        if left.name.startswith(f".{_short_name(target)}."):
            _remove_left(left)
    draft, lock = _make_draft(target)
    try:
        new = draft / target.name
        yield new
        _sync(*(path for path in (new, *new.rglob("*")) if path.is_file()))
        if new.is_dir() and target.is_dir():
            for file in new.iterdir():
                file.replace(target / file.name)
        else:
            new.replace(target)
        with suppress(OSError):  # some file systems sync no folders
            _sync(target.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        os.close(lock)


def _sync(*paths: Path) -> None:
    """Write files or a folder to the disk: after a power failure, a file may else be renamed but empty."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _make_draft(target: Path) -> tuple[Path, int]:
    """Make a draft and hold its lock, by which others see that somebody writes there."""
    while True:
        draft = name_draft(target)
        draft.mkdir()
        with suppress(FileNotFoundError):  # another process has taken it for a killed one's in between
            lock = os.open(draft, os.O_RDONLY)
            with suppress(OSError):  # its age tells then
                fcntl.flock(lock, fcntl.LOCK_EX)
            if draft.exists():
                return draft, lock
            os.close(lock)


def free_name(path: Path) -> Path:
    """Return a path where nothing lies: this one, or it with a number."""
    places = (path.with_name(f"{path.name}{number or ''}") for number in itertools.count())
    return next(place for place in places if not os.path.lexists(place))


def write_text(target: Path, text: str, remedy: str = "Choose another place for it") -> Path:
    """Write a file in one step: a reader sees the old content or the new, never half of it.

    Raises:
        RunError: the file cannot be written; what was there stays.
    """
    try:
        with replace_file(target) as draft:
            draft.write_text(text, encoding="utf-8", errors="replace")  # a name of a file can hold what UTF-8 cannot
    except OSError as error:
        raise RunError(f"cannot be written: {error.strerror}", where=str(target), remedy=remedy) from error
    return target


def find_files(folder: Path, *names: str) -> list[Path]:
    """Find the files of some names in a folder and those below it, but for drafts, which come and go meanwhile."""
    places = [(Path(place), files) for place, _, files in os.walk(folder)]
    return [
        place / name for place, files in places if not DRAFT.fullmatch(place.name) for name in names if name in files
    ]


def remove_drafts(folder: Path) -> None:
    """Remove what killed processes have left half written in a folder and those below it; no link is followed."""
    for place, _, _ in os.walk(folder):
        for draft in _drafts(Path(place)):
            _remove_left(draft)


def find_files_in_writing(folder: Path) -> set[str]:
    """Return the (short) names of the files that processes are writing; drafts of killed ones are removed."""
    drafts = _drafts(folder)
    for draft in drafts:
        _remove_left(draft)
    return {match["target"] for draft in drafts if draft.exists() and (match := DRAFT.fullmatch(draft.name))}


@cache
def _left_drafts(folder: Path) -> list[Path]:
    """Return the drafts that lay in a folder when this process first wrote there."""
    return _drafts(folder)


def _drafts(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if DRAFT.fullmatch(path.name)]


def _remove_left(draft: Path) -> None:
    """Remove a draft that nobody is writing in any more."""
    try:
        lock = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # it is gone, or none of ours
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_left = True
    except BlockingIOError:
        is_left = False
    except OSError:
        times = [path.lstat().st_mtime for path in (draft, *draft.iterdir()) if path.exists()]
        is_left = time.time() - max(times, default=time.time()) > MAX_AGE
    if is_left:
        shutil.rmtree(draft, ignore_errors=True)
    os.close(lock)
