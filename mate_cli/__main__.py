"""`python -m mate_cli` is `mate`; its other processes start from this file too."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python searches the folder of this file first, where `data` or `models` would mean ours, or that in which `mate`
    # is typed, which may be anyone's: only modules that are trusted are taken from there.
    package = Path(__file__).resolve().parent
    if Path(sys.path[0] or ".").resolve() in (package, Path.cwd()):
        sys.path[:] = [*sys.path[1:], str(package.parent)]
    from mate_cli.cli.app import main

    sys.exit(main())
