"""`mate predict`: answer the questions of a file with a finished run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig

CONFIG = "predict"


def run(cfg: DictConfig) -> float | None:
    """Write predictions in the official format, a list of {question_id, pred}."""
    from mate_cli.pipelines.finished import predict_file

    predict_file(cfg)
    return None
