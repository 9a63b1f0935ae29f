"""`mate train`: train one run, a chain of stages, or a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig

CONFIG = "train"


def run(cfg: DictConfig) -> float | None:
    """Train what the configuration says; returns the monitored metric, for searches over configurations."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    from mate_cli.pipelines.assembly import Names
    from mate_cli.pipelines.pointr import train_stages
    from mate_cli.pipelines.training import train

    hydra = HydraConfig.get()
    names, overrides = Names.of(hydra.runtime.choices), list(hydra.overrides.task)
    job = 0 if OmegaConf.is_missing(hydra.job, "num") else int(hydra.job.num)
    if cfg.stages:
        return train_stages(cfg, names, overrides, job=job)
    record = train(cfg, names, overrides, job=job).record
    return record.metrics.get("dev/hits@1", record.metrics.get("dev/gold_f1"))
