"""`mate train`: train one run, a chain of stages, or a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mate_cli.cli.sweep_file import expand

if TYPE_CHECKING:
    from omegaconf import DictConfig

CONFIG = "train"


def arguments(words: Sequence[str]) -> list[str]:
    """The words that Hydra understands: `sweep=NAME` becomes the grid of that file."""
    return expand(words)


def run(cfg: DictConfig) -> float | None:
    """Train what the configuration says; returns the monitored metric, for searches over configurations."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    from mate_cli.pipelines.chain import train_stages
    from mate_cli.pipelines.pretrained import train_after_stages
    from mate_cli.runs.launch import together
    from mate_cli.runs.names import Names
    from mate_cli.runs.result import result_of

    hydra = HydraConfig.get()
    names, overrides = Names.of(hydra.runtime.choices), list(hydra.overrides.task)
    job = 0 if OmegaConf.is_missing(hydra.job, "num") else int(hydra.job.num)
    with together(cfg.hardware):
        if cfg.chain:
            return train_stages(cfg, names, overrides, job=job)
        record = train_after_stages(cfg, names, overrides, job=job).record
    found = result_of(record.monitor, record.metrics)
    return found.value if found else None
