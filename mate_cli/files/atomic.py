"""Files that are written beside their place and then moved there, so that nobody ever sees half of one."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mate_cli.errors import ConfigError

_BESIDE = re.compile(r"\..+\.(\d+)")


def beside(target: Path) -> Path:
    """Where this process writes what then takes the place of a file."""
    return target.with_name(f".{target.name}.{os.getpid()}")


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
        folder = next(one for one in file.absolute().parents if one.exists())
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", where=where, remedy=remedy) from error


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give a place to write to; what was written there takes that of a file once it is whole, else nothing is left."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = beside(target)
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def clear(folder: Path) -> None:
    """Remove what killed processes of this machine have left half written in a folder."""
    for path in folder.glob(".*") if folder.is_dir() else ():
        found = _BESIDE.fullmatch(path.name)
        if found and path.is_file() and not _is_process(int(found[1])):
            path.unlink(missing_ok=True)


def _is_process(number: int) -> bool:
    try:
        os.kill(number, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
