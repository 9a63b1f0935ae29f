"""`mate evaluate`: score a finished run on a split, with the weights it kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig

CONFIG = "evaluate"


def run(cfg: DictConfig) -> float | None:
    """Re-compute the metrics of a run; returns nothing, prints and writes evaluation_<split>.json."""
    from mate_cli.pipelines.finished import evaluate_run

    evaluate_run(cfg)
    return None
