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
    """Re-compute the metrics of runs, print them and write them below their folders."""
    from mate_cli.cli.schema import listed, modules
    from mate_cli.runs.folders import open_run

    for folder in listed(cfg.run):
        open_run(folder)  # quick; what follows loads torch

    from mate_cli.pipelines.finished import Here, evaluate_run

    roots: list[str | None] = [*listed(cfg.data.get("root"))]
    for root in roots or [None]:
        here = Here(cfg.hardware, cfg.paths, {**cfg.data, "root": root}, cfg.whole, modules(cfg.trust))
        for folder in listed(cfg.run):
            evaluate_run(folder, listed(cfg.split), here)
