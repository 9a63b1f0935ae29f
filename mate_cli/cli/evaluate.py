"""`mate evaluate`: score finished runs on splits, with the weights they kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mate_cli.cli.config.quoting import is_written, quoted_list

if TYPE_CHECKING:
    from mate_cli.cli.schema import Evaluate

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
    """Re-compute the metrics of runs, print them and write them below their folders; sort what is wrong."""
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
        if cfg.ensemble:
            told = [(evaluate_together(listed(cfg.run), split, here), split) for split in listed(cfg.split)]
        else:
            for folder in folders:
                evaluate_run(str(folder.path), listed(cfg.split), here)
            told = [(results_folder(folder, here), split) for folder in folders for split in listed(cfg.split)]
        for folder, split in told:
            print_errors(folder.path / "predictions" / f"{split}.json", report_console())
