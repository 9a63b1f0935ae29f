"""`mate train`: train one run, a chain of stages, or a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mate_cli.cli.sweep_file import expand

if TYPE_CHECKING:
    from omegaconf import DictConfig

CONFIG = "train"
MONITORED = (
    *("dev/f1", "dev/hits@1", "dev/gold_f1", "dev/row_accuracy", "dev/hop_accuracy"),
    *("dev/denotation_accuracy", "dev/accuracy", "dev/masked_accuracy"),
)
"""Of a chain, of a selector of cells, of a reader, and of the first two stages of Hybrider; of answers computed from
cells, of verdicts, and of masked language modelling."""


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

    hydra = HydraConfig.get()
    names, overrides = Names.of(hydra.runtime.choices), list(hydra.overrides.task)
    job = 0 if OmegaConf.is_missing(hydra.job, "num") else int(hydra.job.num)
    with together(cfg.hardware):
        if cfg.chain:
            return train_stages(cfg, names, overrides, job=job)
        found = main_result(train_after_stages(cfg, names, overrides, job=job).record.metrics)
    return found[1] if found else None


def main_result(metrics: Mapping[str, float]) -> tuple[str, float] | None:
    """Name and value of the metric that a search over configurations maximises."""
    return next(((name, metrics[name]) for name in MONITORED if name in metrics), None)
