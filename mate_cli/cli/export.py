"""`mate export`: make a folder of a finished run that others can load."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig

CONFIG = "export"


def run(cfg: DictConfig) -> float | None:
    """Write weights, tokenizer, settings and a model card; prints what was written."""
    from mate_cli.pipelines.export import export_run

    export_run(cfg)
    return None
