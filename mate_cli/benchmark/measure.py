"""Run one benchmark and keep its figures like those of a run."""

from __future__ import annotations

from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from mate_cli.runs.clock import Clock
from mate_cli.runs.folders import new_folder
from mate_cli.runs.record import RunRecord, now


def measure(cfg: DictConfig) -> dict[str, float]:
    """Call the benchmark's function and write config.yaml and record.json of a new folder in outputs/benchmark/.

    Args:
        cfg: `benchmark` with its `_target_`, a function that returns figures by name.

    Returns:
        The figures.
    """
    hydra = HydraConfig.get()
    name = str(hydra.runtime.choices["benchmark"])
    folder = new_folder(Path(cfg.paths.outputs), "benchmark", name, 0)
    folder.write_text("config.yaml", OmegaConf.to_yaml(cfg, resolve=True))
    clock = Clock()
    record = RunRecord(
        command="benchmark",
        experiment=name,
        overrides=list(hydra.overrides.task),
        dataset="",
        model="",
        attention="",
        init="",
        task="benchmark",
        seed=cfg.seed,
    )
    try:
        record.metrics = dict(instantiate(cfg.benchmark))
        record.status = "finished"
    except BaseException as error:
        record.status, record.reason = "failed", f"{type(error).__name__}: {error}"
        raise
    finally:
        record.finished, record.wall_seconds = now(), round(clock(), 1)
        folder.write_record(record)
    return record.metrics
