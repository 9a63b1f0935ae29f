"""Loggers of a run: metrics.jsonl and the Lightning loggers of the `logger` config group."""

import inspect
import logging
import os
import secrets
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from pydantic import PositiveFloat
from pytorch_lightning.loggers import Logger, WandbLogger

from mate_cli.errors import MateError, RunError
from mate_cli.files.atomic import number_names
from mate_cli.files.io_errors import shorten_reason, wrap_file_errors
from mate_cli.files.safe_load import to_json
from mate_cli.runs.configuration import Nodes, WandbName, WandbText, build_part
from mate_cli.runs.identity import FOLD, configuration_name, find_value
from mate_cli.runs.metrics_file import Row, rows_until
from mate_cli.runs.record import RunFolder, RunRecord
from mate_cli.runs.wandb_logger import Dashboard
from mate_cli.runs.wandb_runs import open_wandb

TABLE_ROWS = 50
"""Maximum number of rows of a table in W&B, such as of predictions."""
TAGGED = ("dataset", "model", "attention", "init", "task")
STEP = "trainer/global_step"
"""Name of the optimizer step in Lightning's `WandbLogger`."""


class MetricsFile(Logger):
    """Logger that appends a row to metrics.jsonl for each logged step.

    Args:
        folder: run folder.
        resume_step: step from which the run is resumed. Rows after it are removed. None for a new run.
        log_every: steps between two rows, used to detect lost rows. None for no check.
    """

    def __init__(self, folder: RunFolder, resume_step: int | None = None, log_every: int | None = None) -> None:
        super().__init__()
        self.folder, self.path = folder, folder.path / "metrics.jsonl"
        self._kept: list[Row] | None = []
        self._damage = ""
        if resume_step is not None:
            self._kept, self._damage = rows_until(self.path, resume_step, log_every)
        if not os.path.lexists(self.path):
            self._write_kept()

    def _write_kept(self) -> None:
        """Rewrite metrics.jsonl without the rows after the step at which the run resumes.

        Called before the first new row, because until then the checkpoint may be rejected.
        """
        if self._kept is None:
            return
        if self._damage:
            names = number_names(self.path.with_name("metrics.jsonl.damaged"))
            backup = next(name for name in names if not os.path.lexists(name))
            if os.path.lexists(self.path):
                self.path.rename(backup)
            print(f"{self.path}: {self._damage}. The file as it was stays as {backup.name}", flush=True)
        self.folder.write_text("metrics.jsonl", "".join(map(to_json, self._kept)))
        self._kept = None

    @property
    def name(self) -> str:
        """Empty logger name, because a run folder has a single metrics file."""
        return ""

    @property
    def version(self) -> str:
        """Empty logger version, because a resumed run appends to the same file."""
        return ""

    @property
    def save_dir(self) -> str:
        """Path of the run folder."""
        return str(self.folder.path)

    def log_hyperparams(self, params: Any, *more: Any, **named: Any) -> None:  # noqa: ANN401 - Lightning's signature
        """Log no hyperparameters, because config.yaml contains the whole configuration."""

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Append the metrics of a step to metrics.jsonl as a row.

        Raises:
            RunError: the disk is full.
        """
        row = {name: value.item() if isinstance(value, torch.Tensor) else value for name, value in metrics.items()}
        # Rows without "time" come from Lightning. Its epoch counter is always 0.
        if "time" not in row:
            row.pop("epoch", None)
        self._write_kept()
        path = self.folder.place("metrics.jsonl")
        errors = wrap_file_errors(path, RunError, "a row cannot be written", "Free space, then use resume=last")
        with errors, path.open("a", encoding="utf-8") as file:
            file.write(to_json({"step": step, **row}))


def open_loggers(
    nodes: Nodes, folder: RunFolder, record: RunRecord, config: Mapping[str, Any], resume_step: int | None = None
) -> list[Logger]:
    """Open metrics.jsonl and the loggers of the `logger` config group.

    Args:
        nodes: configured loggers by name.
        folder: run folder, which contains the files of all loggers.
        record: record of the run.
        config: resolved configuration.
        resume_step: step from which the run is resumed. None for a new run.

    Raises:
        ConfigError: a logger cannot be instantiated.
    """
    name = name_run(record, config)
    defaults = {"folder": folder, "record": record, "config": config, "save_dir": str(folder.path), "run_name": name}
    # With MLflow's defaults an unreachable server blocks the run for minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    # Tracebacks of logging and of OSErrors in writer threads are suppressed. The next logger call raises the error.
    logging.raiseExceptions = False
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _print_thread_error
    # MLflow warns about every metric with an @ in its name.
    warnings.filterwarnings("ignore", "MLFlow only allows")
    pairs = [(key, node) for key, node in nodes.items() if node is not None]
    # W&B comes last, because it writes files when it is instantiated.
    pairs.sort(key=lambda pair: pair[1]["_target_"] == f"{__name__}.wandb_logger")
    parts = {key: build_part(node, defaults, f"logger.{key}") for key, node in pairs}
    loggers: list[Logger] = [MetricsFile(folder, resume_step, (config.get("trainer") or {}).get("log_every"))]
    for key, logger in parts.items():
        if logger is not None:
            guard = Guard(key)
            for method, _ in inspect.getmembers(type(logger), inspect.isfunction):
                if not method.startswith("_"):
                    setattr(logger, method, partial(guard.call, getattr(logger, method)))
            logger.log_hyperparams(dict(config))
            # Lightning reads this attribute, which opens the files of TensorBoard, without a guard.
            guard.call(getattr, logger, "experiment", None)
            # Lightning would contact the server of a failed logger again.
            loggers += [] if guard.has_failed else [logger]
    return loggers


def _print_thread_error(arguments: threading.ExceptHookArgs) -> None:
    if not isinstance(arguments.exc_value, OSError):
        threading.__excepthook__(arguments)


def name_run(record: RunRecord, config: Mapping[str, Any]) -> str:
    """Return the display name of a run: its experiment, settings, seed and dev fold (if any)."""
    configuration, fold = configuration_name(record.experiment, record.settings), find_value(config, FOLD)
    name = f"{configuration} · seed {record.seed}"
    return name if fold is None else f"{name} · fold {fold}"


def wandb_logger(
    folder: RunFolder,
    record: RunRecord,
    config: Mapping[str, Any],
    mode: Literal["offline", "online", "disabled"] = "offline",
    project: WandbName = "mate",
    entity: WandbName | None = None,
    group: WandbText | None = None,
    tags: Sequence[str] = (),
    timeout: PositiveFloat = 20.0,
) -> WandbLogger | None:
    """Create Lightning's W&B logger, offline by default.

    Return None if W&B fails.

    Args:
        folder: run folder, below which W&B writes.
        record: record with the names, tags and group of the run.
        config: resolved configuration.
        mode: offline, online or disabled.
        project: W&B project.
        entity: W&B team. None for the default entity of the user.
        group: W&B group. None for the experiment and its settings.
        tags: tags in addition to dataset, model, attention, init, task, seed and sweep.
        timeout: seconds to wait for the server before logging offline.
    """
    configuration = configuration_name(record.experiment, record.settings)
    names = {name: getattr(record, name) for name in ("experiment", *TAGGED)}
    record.wandb_id = os.environ.get("WANDB_RUN_ID") or record.wandb_id or secrets.token_hex(8)
    # The ID is stored before the W&B run starts, so that a killed run is resumed as the same W&B run.
    folder.write_record(record)
    try:
        run = open_wandb(
            {"mode": mode, "project": project, "entity": entity, "tags": tags, "timeout": timeout},
            id=record.wandb_id,
            group=group or configuration,
            name=name_run(record, config),
            tags=[*(names[name] for name in TAGGED), f"seed-{record.seed}", record.sweep and f"sweep-{record.sweep}"],
            job_type=record.task,
            dir=str(folder.path),
            config={**config, "names": names, "configuration": configuration, "code_version": record.code_version},
        )
        run.define_metric(STEP)
        run.define_metric("*", step_metric=STEP)
    except MateError:
        raise
    except Exception as error:  # W&B raises many types
        Guard("wandb").fail(error)
        return None
    return Dashboard(experiment=run, project=project, save_dir=str(folder.path))


class Guard:
    """Wrapper of a logger that catches errors, so that a logger failure does not stop the run.

    The first failure is printed, and all later calls are skipped.

    Args:
        key: key of the logger in the `logger` config group.
    """

    def __init__(self, key: str) -> None:
        self.key, self.has_failed = key, False

    def call(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        """Call a method of the logger unless the logger is disabled.

        Return None if this call or an earlier call has failed.
        """
        try:
            return None if self.has_failed else method(*arguments, **named)
        except MateError:
            raise
        except Exception as error:  # loggers raise many types
            return self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Print the root cause of a failure and disable the logger."""
        self.has_failed = True
        while error.__cause__:
            error = error.__cause__
        text = f"logger.{self.key} has failed, and the run continues without it ({shorten_reason(error)})"
        print(f"warning: {text}", file=sys.stderr, flush=True)


def log_row(loggers: Sequence[Logger], row: Row, step: int) -> None:
    """Log a row of metrics to each logger, and save each logger.

    Args:
        loggers: loggers of the run.
        row: metrics by name.
        step: optimizer step.
    """
    for logger in loggers:
        logger.log_metrics(row, step)
        logger.save()


def log_table(loggers: Sequence[Logger], name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Log the first `TABLE_ROWS` rows of a table to W&B, if W&B is one of the loggers.

    Args:
        loggers: loggers of the run.
        name: name of the table.
        columns: column titles.
        rows: cells of each row.
    """
    types = (bool, float, type(None))
    cells = [[value if isinstance(value, types) else str(value) for value in row] for row in rows[:TABLE_ROWS]]
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.log_table(name, columns=list(columns), data=cells)


def close_loggers(loggers: Sequence[Logger], summary: Mapping[str, float], step: int, exit_code: int) -> None:
    """Log the summary of a run to each logger, and close the logger.

    The next job of a sweep in the same process then starts new runs of W&B and other trackers.

    Args:
        loggers: loggers of the run.
        summary: final metrics by name.
        step: last optimizer step.
        exit_code: exit status of the run; 0 for success.
    """
    for logger in loggers:
        if isinstance(logger, Dashboard):
            logger.close(summary, exit_code)
        elif not isinstance(logger, MetricsFile):
            if summary:
                log_row([logger], dict(summary), step)
            logger.finalize("failed" if exit_code else "success")
