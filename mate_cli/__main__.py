"""`python -m mate_cli` is `mate`; its other processes start from this file too."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # Python searches the folder of this file first, where `data` would mean mate's, or the working folder, which may be
    # untrusted: modules are taken from there only if they are trusted, or PYTHONPATH names the folder.
    package = Path(__file__).resolve().parent
    named = {Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    unwanted = {package, Path.cwd()} - named
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() not in unwanted]
    if str(package.parent) not in sys.path:
        sys.path.append(str(package.parent))
    from mate_cli.cli.app import main

    sys.exit(main())
