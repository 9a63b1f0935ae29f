"""`mate evaluate`: score a finished run on a split, with the weights it kept, or several runs as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mate_cli.cli.schema import Evaluate

CONFIG = "evaluate"


def run(cfg: Evaluate) -> None:
    """Compute the metrics of a run, or of several together, print them and write them down; sort what is wrong."""
    from pathlib import Path

    from mate_cli.cli.schema import modules
    from mate_cli.pipelines.finished import Here, evaluate_run

    here = Here(cfg.hardware, cfg.paths, cfg.data_root, cfg.whole, modules(cfg.trust))
    runs = [cfg.run] if isinstance(cfg.run, str) else list(cfg.run)
    if len(runs) == 1:
        evaluate_run(runs[0], cfg.split, here)
        folder = Path(runs[0]).expanduser()
    else:
        from mate_cli.pipelines.ensemble import evaluate_together

        folder = evaluate_together(runs, cfg.split, here).path

    from mate_cli.reports.errors import print_errors
    from mate_cli.reports.terminal import report_console

    print_errors(folder / "predictions" / f"{cfg.split}.json", report_console())
