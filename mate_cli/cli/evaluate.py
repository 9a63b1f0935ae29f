"""`mate evaluate`: score a finished run on a split, with the weights it kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mate_cli.cli.schema import Evaluate

CONFIG = "evaluate"


def run(cfg: Evaluate) -> None:
    """Re-compute the metrics of a run, print them and write them below its folder."""
    from mate_cli.runs.folders import open_run

    open_run(cfg.run)  # quick; what follows loads torch
    from mate_cli.cli.schema import modules
    from mate_cli.pipelines.finished import Here, evaluate_run

    here = Here(cfg.hardware, cfg.paths, cfg.data_root, cfg.whole, modules(cfg.trust))
    evaluate_run(cfg.run, cfg.split, here)
