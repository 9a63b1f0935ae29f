"""What answers questions about any table: a finished run or a checkpoint, loaded once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from mate_cli.errors import ConfigError, DataError, RunError
from mate_cli.metrics.calibration import Calibration
from mate_cli.pipelines.assembly import Parts, load_best
from mate_cli.pipelines.checkpoint import NoDataset, find_checkpoint, open_checkpoint
from mate_cli.pipelines.evaluation import CALIBRATION
from mate_cli.pipelines.finished import run_config
from mate_cli.runs.folders import open_run


@dataclass(frozen=True)
class Model:
    """A network that is ready to answer.

    Args:
        name: for people.
        parts: task, serializer and loaders.
        cfg: what it was made from, on the hardware of now.
        calibration: what its confidences are worth; None where nobody knows.
    """

    name: str
    parts: Parts
    cfg: DictConfig
    calibration: Calibration | None


def open_model(cfg: DictConfig) -> Model:
    """Load the run or checkpoint that is named.

    Args:
        cfg: `run` or `checkpoint`; `hardware` and `paths` of now.

    Raises:
        ConfigError: neither or both of them are given.
        RunError: the run is a chain of stages, left no weights, or does not answer from tables.
        CheckpointError: there is no such checkpoint.
    """
    if (cfg.run is None) == (cfg.checkpoint is None):
        problem = "needs a value" if cfg.run is None else "is given beside checkpoint"
        raise ConfigError(problem, where="run", remedy="Write run=FOLDER or checkpoint=NAME")
    model = _of_run(cfg) if cfg.checkpoint is None else _of_checkpoint(cfg)
    task = model.parts.task
    if task.about_tables is None:
        raise RunError(
            f"{type(task).__name__} points at no cell of a table, and gives no verdict on it",
            where=model.name,
            remedy="Use a model of task=table_qa, entailment or cell_selection",
        )
    return model


def _of_checkpoint(cfg: DictConfig) -> Model:
    parts, config = open_checkpoint(cfg.checkpoint, cfg)
    return Model(cfg.checkpoint, parts, config, read_calibration(find_checkpoint(cfg.checkpoint)))


def _of_run(cfg: DictConfig) -> Model:
    folder = open_run(cfg.run)
    stages = folder.read_record().stages
    if stages:
        raise RunError(
            "this run is a chain, made for tables with linked passages",
            where=cfg.run,
            remedy=f"Use one of its stages: run={folder.path / next(iter(stages))}",
        )
    config = run_config(folder, cfg)
    return Model(cfg.run, load_best(config, folder, NoDataset()), config, read_calibration(folder.path))


def read_calibration(folder: Path) -> Calibration | None:
    """What the confidences of the network in a folder are worth; None where it does not say.

    Raises:
        DataError: the file is damaged.
    """
    path = folder / CALIBRATION
    if not path.is_file():
        return None
    try:
        return Calibration.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise DataError("this calibration cannot be read", where=str(path), remedy="Evaluate the run again") from error
