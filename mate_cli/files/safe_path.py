"""Protection of Python subprocesses against imports from an untrusted working directory."""

import os
import sys
from pathlib import Path

STARTUP = Path(__file__).parent / "startup"
"""Folder of the `sitecustomize.py` that replaces PYTHONSAFEPATH in Python 3.10."""
HAS_SAFE_PATH = sys.version_info >= (3, 11)


def protect_subprocesses() -> None:
    """Prevent Python subprocesses from importing modules of the working directory.

    The working directory is removed from the `sys.path` of all Python subprocesses. Subprocesses that libraries start
    are included, because subprocesses inherit the setting through the environment. Relative entries of PYTHONPATH are
    made absolute, because a subprocess may start in another folder. Empty entries, which mean the working directory,
    are removed.
    """
    entries = [str(Path(entry).absolute()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if HAS_SAFE_PATH:
        os.environ["PYTHONSAFEPATH"] = "1"
    else:
        entries = [str(STARTUP), *(entry for entry in entries if entry != str(STARTUP))]
    os.environ["PYTHONPATH"] = os.pathsep.join(entries)
    if not entries:
        del os.environ["PYTHONPATH"]
