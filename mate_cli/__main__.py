"""`python -m mate_cli` is `mate`; its other processes start from this file too."""

import os
import signal
import sys
from pathlib import Path


def main() -> int:
    """Run `mate`. A signal during the first imports ends the process with exit code 130."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(130))
    from mate_cli.cli.app import main as run

    return run()


if __name__ == "__main__":
    # Python searches the folder of this file first, where `data` or `models` would mean ours, or that in which `mate`
    # is typed, which may be anyone's: only modules that are trusted are taken from there.
    package = Path(__file__).resolve().parent
    if Path(sys.path[0] or ".").resolve() in (package, Path.cwd()):
        sys.path[:] = [*sys.path[1:], str(package.parent)]
    sys.exit(main())
