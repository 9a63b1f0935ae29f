"""Entry point of `python -m mate_cli`, which runs `mate`.

Subprocesses of `mate` start from this file too.
"""

import os
import sys
from pathlib import Path


def main() -> int:
    """Run the command line program `mate`, and return its exit code."""
    # Import late: `sys.path` must not contain an untrusted folder.
    import signal

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(130))
    from mate_cli.cli.app import main as run

    return run()


if __name__ == "__main__":
    # Python puts the folder of this file or the working directory first in `sys.path`. The former would hide packages
    # named like mate's subpackages, such as `data`. The latter may be untrusted, so `sys.path` contains it only if
    # PYTHONPATH does. Trusted modules are found separately.
    package = Path(__file__).resolve().parent
    python_path = {Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    unwanted = {package, Path.cwd()} - python_path
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() not in unwanted]
    if str(package.parent) not in sys.path:
        sys.path.append(str(package.parent))
    sys.exit(main())
