"""`mate evaluate`: score a finished run on a split, with the weights it kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mate_cli.cli.schema import Evaluate
    from mate_cli.pipelines.finished import Here

CONFIG = "evaluate"


def run(cfg: Evaluate) -> None:
    """Re-compute the metrics of a run, or analyse it; print what is found and write it below the run's folder."""
    from mate_cli.cli.schema import modules
    from mate_cli.pipelines.finished import Here, evaluate_run

    here = Here(cfg.hardware, cfg.paths, cfg.data_root, cfg.whole, modules(cfg.trust))
    if cfg.analysis is None:
        evaluate_run(cfg.run, cfg.split, here)
    else:
        analyse(cfg, here)


def analyse(cfg: Evaluate, here: Here) -> None:
    """Print what an analysis finds, and write it and its figures below the run's folder."""
    from hydra.utils import instantiate

    from mate_cli.analysis.base import FOLDER, analyse_run
    from mate_cli.reports.analyses import show_findings
    from mate_cli.reports.terminal import report_console

    folder, found = analyse_run(cfg.run, cfg.split, here, instantiate(cfg.analysis))
    console = report_console()
    for file in show_findings(found, folder.path / FOLDER, console):
        console.print(f"written: {file}", soft_wrap=True)
