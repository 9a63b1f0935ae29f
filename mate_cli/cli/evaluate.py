"""`mate evaluate`: score finished runs on splits, with the weights they kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mate_cli.cli.config.quoting import is_written, quoted_list

if TYPE_CHECKING:
    from mate_cli.cli.schema import Evaluate
    from mate_cli.pipelines.finished import Here

CONFIG = "evaluate"
SEVERAL = ("run", "split", "data.root")
"""Keys of which several values, parted by commas, are all taken: nothing is swept here."""


def arguments(words: Sequence[str]) -> list[str]:
    """Make lists of several values, and let any key of the run's data be set."""
    return [_of_data(_several(word)) for word in words]


def _several(word: str) -> str:
    key, equals, value = word.partition("=")
    if not equals or key not in SEVERAL or "," not in value or value[0] == "[" or is_written(value):
        return word
    return f"{key}={quoted_list(value.split(','))}"


def _of_data(word: str) -> str:
    return f"++{word}" if word.startswith("data.") else word


def run(cfg: Evaluate) -> None:
    """Re-compute the metrics of runs and sort what is wrong, or analyse them; print and write what is found."""
    from mate_cli.cli.schema import listed, modules
    from mate_cli.runs.folders import open_run

    folders = [open_run(folder) for folder in listed(cfg.run)]  # quick; what follows loads torch

    from mate_cli.pipelines.ensemble import evaluate_together
    from mate_cli.pipelines.finished import Here, evaluate_run, results_folder
    from mate_cli.reports.errors import print_errors
    from mate_cli.reports.terminal import report_console

    roots: list[str | None] = [*listed(cfg.data.get("root"))]
    for root in roots or [None]:
        here = Here(cfg.hardware, cfg.paths, {**cfg.data, "root": root}, cfg.whole, modules(cfg.trust))
        if cfg.analysis is not None:
            analyse(cfg, here)
            continue
        if cfg.ensemble:
            told = [(evaluate_together(listed(cfg.run), split, here), split) for split in listed(cfg.split)]
        else:
            for folder in folders:
                evaluate_run(str(folder.path), listed(cfg.split), here)
            told = [(results_folder(folder, here), split) for folder in folders for split in listed(cfg.split)]
        for folder, split in told:
            print_errors(folder.path / "predictions" / f"{split}.json", report_console())


def analyse(cfg: Evaluate, here: Here) -> None:
    """Print what an analysis finds in each run, and write it and its figures below the run's folder."""
    from hydra.utils import instantiate

    from mate_cli.analysis.base import FOLDER, analyse_run
    from mate_cli.cli.schema import listed
    from mate_cli.reports.analyses import show_findings
    from mate_cli.reports.terminal import report_console

    console, analysis = report_console(), instantiate(cfg.analysis)
    for run in listed(cfg.run):
        for split in listed(cfg.split):
            folder, found = analyse_run(run, split, here, analysis)
            for file in show_findings(found, folder.path / FOLDER, console):
                console.print(f"written: {file}", soft_wrap=True)
