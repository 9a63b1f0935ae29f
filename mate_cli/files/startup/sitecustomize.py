"""Keep Python 3.10 from importing modules of the working folder.

PYTHONSAFEPATH does the same from Python 3.11 on.

Python inserts the working folder (`-c`, `-m`) or the script's folder into `sys.path` after this module has run. The
first import afterwards removes that entry.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class _DropFirstEntry:
    """Import finder that removes the entry which Python inserts into `sys.path` at startup.

    It finds no modules.
    """

    def __init__(self, expected: list[str]) -> None:
        self.expected = expected

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find no module, but remove the entry that Python has inserted into `sys.path`, if any."""
        if sys.path[1:] == self.expected:
            del sys.path[0]
            sys.meta_path.remove(self)
        return None


_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would be imported in every process
sys.path[:] = [entry for entry in sys.path if entry != _HERE]
# Run the `sitecustomize` of the system or the environment, which this module hides.
if (_other := PathFinder.find_spec("sitecustomize")) and _other.loader:
    _other.loader.exec_module(ModuleType("sitecustomize"))
sys.meta_path.insert(0, _DropFirstEntry([*sys.path]))
