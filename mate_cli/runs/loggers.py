"""The loggers of a run: its own metrics.jsonl, and those of Lightning that the `logger` group lists."""

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
from mate_cli.files.atomic import free_name
from mate_cli.files.io_errors import shorten_reason
from mate_cli.files.safe_load import to_json
from mate_cli.runs.configuration import Nodes, WandbName, WandbText, build_part
from mate_cli.runs.identity import FOLD, configuration_name, find_value
from mate_cli.runs.metrics_file import Row, rows_until
from mate_cli.runs.record import RunFolder, RunRecord
from mate_cli.runs.wandb_logger import Dashboard
from mate_cli.runs.wandb_runs import open_wandb
from mate_cli.terminal.console import Transcript

TABLE_ROWS = 50
"""Predictions that are shown in a dashboard."""
LOST = "has failed, and the run goes on without it"
TAGGED = ("dataset", "model", "attention", "init", "task")
STEP = "trainer/global_step"
"""The optimizer step, as Lightning's logger of W&B calls it."""


class MetricsFile(Logger):
    """metrics.jsonl: a row per logged step, appended at once.

    Args:
        folder: the run's.
        resume_step: rows after this step belong to work that is done again, and are dropped.
        log_every: steps between two rows; None where nobody looks for lost ones.
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
        """Drop the rows of work that is done again, with its first row: before, the last state may yet be refused."""
        if self._kept is None:
            return
        if self._damage:
            aside = free_name(self.path.with_name("metrics.jsonl.damaged"))
            if os.path.lexists(self.path):
                self.path.rename(aside)
            print(f"{self.path}: {self._damage}. The file as it was stays as {aside.name}", flush=True)
        self.folder.write_text("metrics.jsonl", "".join(map(to_json, self._kept)))
        self._kept = None

    @property
    def name(self) -> str:
        """No name: there is one file in a run's folder."""
        return ""

    @property
    def version(self) -> str:
        """No version: a run that is resumed goes on in its file."""
        return ""

    @property
    def save_dir(self) -> str:
        """The run's folder."""
        return str(self.folder.path)

    def log_hyperparams(self, params: Any, *more: Any, **named: Any) -> None:  # noqa: ANN401 - Lightning's signature
        """Leave them to config.yaml."""

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Append a row.

        Raises:
            RunError: the disk is full.
        """
        row = {name: value.item() if isinstance(value, torch.Tensor) else value for name, value in metrics.items()}
        if "time" not in row:  # Lightning's own row, whose epoch is the one that it sees
            row.pop("epoch", None)
        self._write_kept()
        try:
            with self.folder.place("metrics.jsonl").open("a", encoding="utf-8") as file:
                file.write(to_json({"step": step, **row}))
        except OSError as error:
            raise RunError(
                f"a row cannot be written: {error.strerror}",
                where=str(self.path),
                remedy="Free space, then use resume=last",
            ) from error


def open_loggers(
    nodes: Nodes, folder: RunFolder, record: RunRecord, config: Mapping[str, Any], resume_step: int | None = None
) -> list[Logger]:
    """Open metrics.jsonl and what the `logger` group lists, whose files go to the run's folder.

    Raises:
        ConfigError: a logger cannot be built.
    """
    name = name_run(record, config)
    defaults = {"folder": folder, "record": record, "config": config, "save_dir": str(folder.path), "run_name": name}
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # else a server that has gone holds a run for minutes
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    _mute_libraries()
    warnings.filterwarnings("ignore", "MLFlow only allows")  # a line for every metric with an @ in its name
    chosen = [(key, node) for key, node in nodes.items() if node is not None]
    chosen.sort(key=lambda pair: pair[1]["_target_"] == f"{__name__}.wandb_logger")  # writes files when it is built
    parts = {key: build_part(node, defaults, f"logger.{key}") for key, node in chosen}
    loggers: list[Logger] = [MetricsFile(folder, resume_step, (config.get("trainer") or {}).get("log_every"))]
    for key, logger in parts.items():
        if logger is not None:
            told = lost_words(folder) if isinstance(logger, Dashboard) else (f"logger.{key} {LOST}",)
            attempt = guard_run(logger, *told)
            logger.log_hyperparams(dict(config))
            loggers += [] if attempt.lost else [logger]  # Lightning asks each for its server again
    return loggers


def _mute_libraries() -> None:
    """Print no traceback for a log that cannot be written, or for a writer thread: its next call raises the error."""
    logging.raiseExceptions = False
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _print_thread_error


def _print_thread_error(arguments: threading.ExceptHookArgs) -> None:
    if not isinstance(arguments.exc_value, OSError):
        threading.__excepthook__(arguments)


def name_run(record: RunRecord, config: Mapping[str, Any]) -> str:
    """Return what a run is called in a dashboard: its settings, its seed, and its fold where there are folds."""
    configuration, fold = configuration_name(record.experiment, record.settings), find_value(config, FOLD)
    name = f"{configuration} · seed {record.seed}"
    return name if fold is None else f"{name} · fold {fold}"


def guard_run(logger: Logger, text: str, place: str = "") -> "Attempts":
    """Let a logger that is built lose its figures rather than the run, see `Attempts`."""
    attempt = Attempts(text, place)
    for name, _ in inspect.getmembers(type(logger), inspect.isfunction):
        if not name.startswith("_"):
            setattr(logger, name, partial(attempt, getattr(logger, name)))
    return attempt


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
    """Build Lightning's logger of W&B on a run that is offline unless the user asks for more; None where W&B fails.

    Args:
        folder: the run's; W&B writes below it.
        record: names, tags and group of the run.
        config: the resolved configuration.
        mode: where the run goes.
        project: its project in W&B.
        entity: the team; None for the user's own.
        group: None for the experiment and its settings.
        tags: beside dataset, model, attention, init, task, seed and sweep.
        timeout: seconds to wait for the server before going on offline.
    """
    configuration = configuration_name(record.experiment, record.settings)
    names = {name: getattr(record, name) for name in ("experiment", *TAGGED)}
    record.wandb_id = os.environ.get("WANDB_RUN_ID") or record.wandb_id or secrets.token_hex(8)
    folder.write_record(record)  # before W&B has heard of it, so that a run that is killed goes on as the same
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
    except Exception as error:  # whatever W&B raises
        Attempts(*lost_words(folder)).fail(error)
        return None
    return Dashboard(experiment=run, project=project, save_dir=str(folder.path))


class Attempts:
    """Calls of a logger that loses its figures rather than the run: its first failure is its last word.

    Args:
        text: what is said then.
        place: what stands before the reason.
    """

    def __init__(self, text: str, place: str = "") -> None:
        self.text, self.place = text, place
        self.lost = False

    def __call__(self, act: Callable[..., Any], *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        """Call a method of the logger, unless one has failed before; None then."""
        if self.lost:
            return None
        try:
            return act(*arguments, **named)
        except MateError:
            raise
        except Exception as error:  # whatever a logger raises
            self.fail(error)
            return None

    def fail(self, error: BaseException) -> None:
        """Report the first cause of a failure; nothing more is logged."""
        self.lost = True
        while error.__cause__:
            error = error.__cause__
        print(f"warning: {self.text} ({self.place}{shorten_reason(error)})", file=sys.stderr, flush=True)


def lost_words(folder: RunFolder) -> tuple[str, str]:
    """Return what is said once W&B has failed, and where its files are."""
    return f"W&B {LOST}", f"{folder.path / 'wandb'}: "


def log_row(loggers: Sequence[Logger], row: Row, step: int) -> None:
    """Log a row to each logger, so that it can be seen at once."""
    for logger in loggers:
        logger.log_metrics(row, step)
        logger.save()


def log_table(loggers: Sequence[Logger], name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Log the first rows of a table where a logger shows tables."""
    plain = (bool, float, type(None))
    shown = [[value if isinstance(value, plain) else str(value) for value in row] for row in rows[:TABLE_ROWS]]
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.log_table(name, columns=list(columns), data=shown)


def hand_lines(transcript: Transcript, loggers: Sequence[Logger]) -> None:
    """Hand the lines that a run prints to the logger that shows them."""
    for logger in loggers:
        if isinstance(logger, Dashboard):
            transcript.hand_to(logger.write_logs)


def close_loggers(loggers: Sequence[Logger], summary: Mapping[str, float], step: int, exit_code: int) -> None:
    """Log the last figures of a run and end it in each logger, so that the next job of a sweep starts its own."""
    for logger in loggers:
        if isinstance(logger, Dashboard):
            logger.close(summary, exit_code)
        elif not isinstance(logger, MetricsFile):
            if summary:
                log_row([logger], dict(summary), step)
            logger.finalize("failed" if exit_code else "success")
