"""`mate export`: export a finished run as a folder that other programs can load."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mate_cli.cli.config.schema import Export


def run(cfg: Export) -> None:
    """Export weights, tokenizer, settings and model card of a run to a folder.

    If `push` is set, the folder is uploaded to the Hugging Face Hub.
    """
    from mate_cli.cli.config.validate import check_run_types

    cfg.hardware.require_one_process("mate export")
    # Check the types before torch is imported, which takes seconds.
    check_run_types(cfg.run, cfg.trust)
    from mate_cli.pipelines.export.export import EXPORTED, check_push, export_run, push_folder
    from mate_cli.pipelines.machine import RuntimeOverrides
    from mate_cli.terminal.console import Console

    if cfg.push is not None:
        check_push(cfg.push)
    runtime = RuntimeOverrides(cfg.hardware, cfg.paths, trust=cfg.trust)
    folder = export_run(cfg.run, cfg.to, runtime, overwrite=cfg.overwrite, licence=cfg.license, hub=cfg.push)
    if cfg.push is not None:
        Console(highlight=False).print(
            f"pushed: {push_folder(folder, EXPORTED, cfg.push, private=cfg.private)}", soft_wrap=True
        )
