"""`mate evaluate`: score a finished run on a split, with the weights it kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mate_cli.cli.schema import Evaluate

CONFIG = "evaluate"


def run(cfg: Evaluate) -> None:
    """Re-compute the metrics of a run, print them and write them below its folder; sort what is wrong."""
    from pathlib import Path

    from mate_cli.cli.schema import modules
    from mate_cli.pipelines.finished import Here, evaluate_run

    here = Here(cfg.hardware, cfg.paths, cfg.data_root, cfg.whole, modules(cfg.trust))
    evaluate_run(cfg.run, cfg.split, here)

    from mate_cli.reports.errors import print_errors
    from mate_cli.reports.terminal import report_console

    print_errors(Path(cfg.run).expanduser() / "predictions" / f"{cfg.split}.json", report_console())
