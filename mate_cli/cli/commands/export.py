"""`mate export`: make a folder of a finished run that others can load."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mate_cli.cli.config.schema import Export

CONFIG = "export"


def run(cfg: Export) -> None:
    """Write weights, tokenizer, settings and a model card; prints what was written."""
    from mate_cli.cli.config.validate import check_run_types

    cfg.hardware.require_one_process("mate export")
    check_run_types(cfg.run, cfg.trust)  # quick; what follows loads torch
    from mate_cli.pipelines.export.export import export_run
    from mate_cli.pipelines.machine import RuntimeOverrides

    runtime = RuntimeOverrides(cfg.hardware, cfg.paths, trust=cfg.trust)
    export_run(cfg.run, cfg.to, runtime, overwrite=cfg.overwrite, licence=cfg.license)
