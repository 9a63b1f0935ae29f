"""Subprocesses import nothing from the folder in which they start: it may be an untrusted one."""

import os
import sys
from pathlib import Path

STARTUP = Path(__file__).parent / "startup"
"""Folder of the `sitecustomize.py` that stands in for PYTHONSAFEPATH in Python 3.10."""
HAS_SAFE_PATH = sys.version_info >= (3, 11)


def protect_subprocesses() -> None:
    """Start all later Python subprocesses without the working folder in `sys.path`, whichever library starts them.

    They inherit this through the environment. Relative entries of PYTHONPATH are made absolute, since a subprocess may
    start in another folder. Empty entries, which mean the working folder, are removed.
    """
    entries = [str(Path(entry).absolute()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if HAS_SAFE_PATH:
        os.environ["PYTHONSAFEPATH"] = "1"
    else:
        entries = [str(STARTUP), *(entry for entry in entries if entry != str(STARTUP))]
    os.environ["PYTHONPATH"] = os.pathsep.join(entries)
    if not entries:
        del os.environ["PYTHONPATH"]
