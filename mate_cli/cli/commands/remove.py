"""`mate remove RUN ...`: remove runs for good, once their user has said so."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from mate_cli.cli.flags import split_flags
from mate_cli.errors import ConfigError

HELP = """Remove runs for good; asks first.

Usage: mate remove RUN ... [--yes]

Examples
  mate remove outputs/train/quickstart/2026-11-25_10-00-00_0
  mate remove outputs/train/quickstart/2026-11-25_* --yes

Only whole runs are removed that no process trains. --yes does not ask."""
YES = "--yes"


def run_plain(words: Sequence[str]) -> int:
    """Show runs and remove them; nothing is removed where one of them cannot be.

    Returns:
        0 where they are gone, 1 where the user would rather keep them.

    Raises:
        ConfigError: no run is named, or there is nobody to ask.
        RunError: one is no run, a link, a stage of another run, or being trained.
    """
    from mate_cli.cli.shell.run_list import describe_run, read_note
    from mate_cli.runs.index import index_run
    from mate_cli.runs.removal import check_removable, remove_run

    flags, names = split_flags(words)
    if not words or "--help" in flags:
        print(HELP)
        return 0
    if unknown := next((flag for flag in flags if flag != YES), None):
        raise ConfigError("unknown flag", where=unknown, remedy="Type mate remove --help")
    folders = list(dict.fromkeys(Path(name) for name in names))
    for folder in folders:
        check_removable(folder)
    for folder in folders:
        run = index_run(folder)
        print(
            "  ".join(filter(None, [str(folder), describe_run(run, run.status_now(folder.parent)), read_note(folder)]))
        )
    if YES not in flags:
        if not sys.stdin.isatty():
            raise ConfigError("needs a terminal to ask", where="mate remove", remedy=f"Add {YES}")
        what = "this run" if len(folders) == 1 else f"these {len(folders)} runs"
        if input(f"Remove {what} for good? [y/N] ").strip().lower() not in ("y", "yes"):
            return 1
    for folder in folders:
        remove_run(folder)
    return 0
