"""A finished run or a checkpoint, loaded once to answer questions about any table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mate_cli.data.loading.table_data_module import NoDataset
from mate_cli.errors import DataError, RunError
from mate_cli.files.io_errors import wrap_read_errors
from mate_cli.files.safe_load import read_object
from mate_cli.metrics.calibration import CALIBRATION, Calibration
from mate_cli.pipelines.assembly import Parts, load_best
from mate_cli.pipelines.inference.predict_request import check_model
from mate_cli.pipelines.machine import RuntimeOverrides
from mate_cli.runs.configuration import ModelConfig
from mate_cli.runs.folders import open_run


@dataclass(frozen=True)
class LoadedModel:
    """A network that is ready to answer.

    Args:
        name: for people.
        parts: task, serializer and loaders.
        config: what it was made from, on the hardware of now.
        calibration: what its confidences are worth; None where nobody knows.
    """

    name: str
    parts: Parts
    config: ModelConfig
    calibration: Calibration | None


def load_model(run: str | None, checkpoint: str | None, runtime: RuntimeOverrides) -> LoadedModel:
    """Load the run or checkpoint that is named.

    Args:
        run: a run folder, or None.
        checkpoint: an exported folder or one of transformers, or None.
        runtime: the machine and the folders of now.

    Raises:
        ConfigError: neither or both of them are given.
        RunError: the run is a chain of stages, or left no weights.
        CheckpointError: there is no such checkpoint.
    """
    check_model(run, checkpoint)
    return open_checkpoint_model(str(checkpoint), runtime) if run is None else open_run_model(run, runtime)


def require_table_answers(model: LoadedModel) -> None:
    """Refuse a model that does not answer about any table.

    Raises:
        RunError: saying what to use.
    """
    task = model.parts.task
    if task.spec.table_answers is None:
        raise RunError(
            f"{type(task).__name__} does not answer with table cells or a verdict",
            where=model.name,
            remedy="Use a model of task=table_qa or task=entailment",
        )


def open_checkpoint_model(name: str, runtime: RuntimeOverrides) -> LoadedModel:
    """Load an exported folder or one of transformers, whatever it answers; see `open_checkpoint`."""
    from mate_cli.pipelines.inference.checkpoint import find_checkpoint, open_checkpoint  # a run needs no file formats

    parts, config = open_checkpoint(name, runtime)
    return LoadedModel(name, parts, config, read_calibration(find_checkpoint(name)))


def open_run_model(run: str, runtime: RuntimeOverrides) -> LoadedModel:
    """Load the best weights of a run, whatever it answers; see `open_run` and `load_best`."""
    folder = open_run(run)
    config = runtime.config(folder)
    return LoadedModel(run, load_best(config, folder, NoDataset()), config, read_calibration(folder.path))


def read_calibration(folder: Path) -> Calibration | None:
    """Read the calibration of the confidences of the network in a folder; None where there is none.

    Raises:
        DataError: the file is damaged.
    """
    path = folder / CALIBRATION
    if not path.is_file():
        return None
    again = "Evaluate the run again"
    with wrap_read_errors(path, DataError, "this calibration cannot be read", again):
        return Calibration.from_json(read_object(path, DataError, again, links=True))
