"""`python -m mate_cli` is `mate`; Lightning's child processes start from this file too."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Run as a file, Python searches this folder first: `data` or `models` would then mean ours.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
    from mate_cli.cli.app import main

    sys.exit(main())
