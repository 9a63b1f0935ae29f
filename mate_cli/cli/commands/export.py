"""`mate export`: make a folder of a finished run that others can load."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mate_cli.cli.config.schema import Export

CONFIG = "export"


def run(cfg: Export) -> None:
    """Write weights, tokenizer, settings and a model card; prints what was written."""
    from mate_cli.runs.folders import open_run

    open_run(cfg.run)  # quick; what follows loads torch
    from mate_cli.pipelines.evaluation.finished import Here
    from mate_cli.pipelines.export.export import export_run

    here = Here(cfg.hardware, cfg.paths, trust=cfg.trust)
    export_run(cfg.run, cfg.to, here, overwrite=cfg.overwrite, licence=cfg.license)
