"""Modules of the user's own, which lie in a folder and are installed nowhere.

Nothing is imported here. A folder is only looked into for names that the user has typed, composed from a `conf/` of
their own, or trusted; what else lies there stands behind all that is installed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

UNIFIED = "lightning.pytorch."
"""The same classes in the package that holds all of Lightning, which need not be installed."""


def find_beside(names: Iterable[str], *folders: Path) -> None:
    """Let modules be imported that lie in one of some folders, where no others of their names are installed.

    The working folder is looked into where none is named.
    """
    for top in {name.partition(".")[0] for name in names}:
        if not top.isidentifier() or top in sys.modules or find_spec(top) is not None:
            continue
        for folder in folders or (Path.cwd(),):
            if (folder / f"{top}.py").is_file() or (folder / top).is_dir():
                sys.path.append(str(folder.absolute()))
                importlib.invalidate_caches()
                break


def what_is_missing(name: str) -> str:
    """Why there is nothing of a dotted name, for people: "there is no ...", and as far as it goes."""
    module, _, own = name.rpartition(".")
    top = name.partition(".")[0]
    if not module:
        return f"there is no {name}"
    try:
        if name.startswith(UNIFIED) and find_spec(top) is None:
            return f"there is no {name} here: write {name.replace(UNIFIED, 'pytorch_lightning.')}"
        if top != "mate_cli" and find_spec(top) is None:
            return f"there is no {name}, for there is no module {top}: put {top}.py where you type, or install it"
        if top != "mate_cli" and find_spec(module) is not None:
            return f"there is no {name}: {module} has no {own}"
    except (ImportError, ValueError):
        pass
    return f"there is no {name}"
