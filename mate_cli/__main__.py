"""`python -m mate_cli` is `mate`; its other processes start from this file too."""

import os
import sys
from pathlib import Path


def main() -> int:
    """Run `mate`. A signal during the first imports ends the process with exit code 130."""
    import signal  # once no untrusted folder is searched

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(130))
    from mate_cli.cli.app import main as run

    return run()


if __name__ == "__main__":
    # Python searches the folder of this file first, where `data` would mean mate's, or the working folder, which may be
    # untrusted: modules are taken from there only if they are trusted, or PYTHONPATH names the folder.
    package = Path(__file__).resolve().parent
    named = {Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    unwanted = {package, Path.cwd()} - named
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() not in unwanted]
    if str(package.parent) not in sys.path:
        sys.path.append(str(package.parent))
    sys.exit(main())
