"""`mate diff RUN RUN`: settings, versions, data, scores and answers in which two runs differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.cli.commands.compare import arguments, takes_word

if TYPE_CHECKING:
    from mate_cli.cli.config.schema import Diff

__all__ = ["CONFIG", "arguments", "run", "takes_word"]
CONFIG = "diff"


def run(cfg: Diff) -> None:
    """Print the difference of two runs, and write it as a page.

    Raises:
        ConfigError: there are not two of them.
        RunError: one cannot be read.
    """
    from mate_cli.errors import ConfigError
    from mate_cli.quoting import format_command
    from mate_cli.reports.page import write_difference
    from mate_cli.reports.runs.load import first_runs, open_runs
    from mate_cli.reports.sections.runs import difference_section
    from mate_cli.reports.terminal import print_views, print_warnings
    from mate_cli.terminal.console import report_console

    folders = [Path(folder) for folder in cfg.runs]
    if len({folder.resolve() for folder in folders}) != 2 or len(folders) != 2:
        problem = f"two different runs are needed, not {', '.join(map(str, folders)) or 'none'}"
        below = first_runs(folders[0], 2) if folders else []
        pair = (
            format_command("mate", "diff", *below)
            if len(below) == 2
            else "mate diff outputs/train/<name>/<date> <another>"
        )
        raise ConfigError(problem, where="runs", remedy=f"Type: {pair}")
    loaded = open_runs(folders)
    section = difference_section((loaded.runs[0], loaded.runs[1]), cfg.questions)
    console = report_console()
    print_warnings(loaded.warnings, console)
    console.print(section.notes[0], "", sep="\n", soft_wrap=True)
    print_views(section.views, console, section.notes[1:])
    if cfg.html is not None:
        page = folders[0] / "diff.html" if cfg.html == "auto" else Path(cfg.html)
        console.print(f"page: {write_difference(section, loaded, page)}", soft_wrap=True)
