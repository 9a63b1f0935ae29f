"""Files that are written beside their place and then moved there, so that nobody ever sees half of one."""

from __future__ import annotations

import os
import re
from pathlib import Path

_BESIDE = re.compile(r"\..+\.(\d+)")


def beside(target: Path) -> Path:
    """Where this process writes what then takes the place of a file."""
    return target.with_name(f".{target.name}.{os.getpid()}")


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
