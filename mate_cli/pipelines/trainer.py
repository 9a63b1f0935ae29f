"""The Lightning trainer of a run.

It is built from the config groups `trainer`, `callbacks` and `logger`, and from fixed options.

Lightning runs the loop, devices, precision, callbacks and loggers. Four guarantees need additional components:

- A run can be resumed in the middle of an epoch with the same final weights. For Lightning the complete run is one
  epoch with a planned number of micro-batches. Generators are seeded before each micro-batch (`Reproducible`), and
  `Checkpoints` saves after complete optimizer steps. Lightning's `ModelCheckpoint` may save additional checkpoints, but
  runs are never resumed from them.
- A step has the same examples for any micro-batch size and world size, in the order of `LengthGroupedBatches`.
  Therefore Lightning's sampler and accumulation cannot be configured separately.
- The best weights are those of the best validation, stored as safetensors, and averaged if a callback averages weights.
- metrics.jsonl and record.json do not depend on the configured loggers. `FollowTraining` writes the rows, with the
  epoch of the data instead of Lightning's single epoch.

The task clips gradients by norm (`configure_gradient_clipping`), because Lightning does not clip for a fused optimizer
under bf16-mixed.
"""

import difflib
import inspect
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch.distributed as dist
from hydra.utils import get_class, get_object, instantiate
from pytorch_lightning import callbacks as lightning
from pytorch_lightning.loggers import Logger
from pytorch_lightning.loggers.logger import DummyLogger
from pytorch_lightning.plugins import CheckpointIO, ClusterEnvironment, Precision
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.profilers import PassThroughProfiler
from pytorch_lightning.strategies import DDPStrategy

from mate_cli.attention.base import AttentionBackend
from mate_cli.data.loading.batching import Schedule
from mate_cli.errors import ConfigError
from mate_cli.files.io_errors import shorten_reason
from mate_cli.lit_modules.base import TableTask
from mate_cli.metrics.pruning import PRUNING_SCORES
from mate_cli.metrics.specs import MetricName, metric_specs, spec_to_follow
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.initialization.initial_weights import Initializer
from mate_cli.pipelines.machine import check_compiler, resolve_profile
from mate_cli.pipelines.run import Run
from mate_cli.runs import ranks
from mate_cli.runs.callbacks import Checkpoints, FollowTraining, Reproducible
from mate_cli.runs.configuration import Hardware, Node, Nodes, RunConfig, build_part
from mate_cli.runs.loggers import close_loggers, open_loggers
from mate_cli.runs.wandb_logger import Dashboard
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.serializers.serializer import Serializer

OPTIONS = "trainer.options"
MAX_NAME = 200
"""Maximum bytes of a file name, to which Lightning appends a number and an extension."""


RESERVED = {
    "Use the keys of hardware": ("accelerator", "devices", "num_nodes", "strategy", "precision"),
    "Use trainer.max_epochs and trainer.max_steps": ("max_epochs", "min_epochs", "max_steps", "min_steps"),
    "Use trainer.batch_size and hardware.micro_batch": (
        "accumulate_grad_batches",
        "use_distributed_sampler",
        "reload_dataloaders_every_n_epochs",
    ),
    "Use trainer.limit_train, limit_dev and limit_test, debug=overfit or debug=fast": (
        *("limit_train_batches", "limit_val_batches", "limit_test_batches", "limit_predict_batches"),
        *("overfit_batches", "fast_dev_run"),
    ),
    "Use trainer.val_every": ("val_check_interval", "check_val_every_n_epoch", "num_sanity_val_steps"),
    "Use trainer.checkpoint_every": ("enable_checkpointing", "default_root_dir", "barebones", "model_registry"),
    "Use trainer.gradient_clip": ("gradient_clip_val", "gradient_clip_algorithm"),
    "Use deterministic=true": ("deterministic",),
    "Use trainer.log_every": ("log_every_n_steps",),
    "Use logger=[wandb,csv]": ("logger",),
    "Add a file to conf/callbacks": ("callbacks", "enable_progress_bar", "enable_model_summary"),
}
"""Arguments of `pl.Trainer` that mate sets for the guarantees above, by the hint to the replacement."""
REFUSED = {
    CheckpointIO: "runs resume from Lightning's own checkpoints",
    ClusterEnvironment: "processes are started by the keys of hardware",
    Precision: "it is hardware.precision",
    lightning.StochasticWeightAveraging: "it counts Lightning epochs, and a run is one; use callbacks=weight_averaging",
    lightning.BaseFinetuning: "it counts Lightning epochs, and a run is one",
    lightning.GradientAccumulationScheduler: "accumulation follows from trainer.batch_size and hardware.micro_batch",
    lightning.BatchSizeFinder: "the batches are planned: see hardware.micro_batch",
    lightning.LearningRateFinder: "it trains before the run starts: search with sweep=learning_rate",
}
"""Plugins and callbacks that would break a guarantee, with the reasons."""
KINDS: dict[str, type] = {
    **{"model": TableEncoder, "task": TableTask, "encoding": Serializer},
    **{"init": Initializer, "attention": AttentionBackend},
}
"""Base class of each part of a network, by config group."""
PACKAGES = {
    "TensorBoardLogger": ("tensorboard", "tensorboard"),
    "MLFlowLogger": ("mlflow", "mlflow"),
    "CometLogger": ("comet_ml", "comet-ml"),
    "NeptuneLogger": ("neptune", "neptune"),
    "LitLogger": ("litlogger", "litlogger"),
    "DeviceStatsMonitor": ("psutil", "psutil"),
}
"""Modules that classes of Lightning need in addition to Lightning, and their names for pip."""


def build_trainer(
    run: Run,
    cfg: RunConfig,
    schedule: Schedule,
    interval: int,
    follow: FollowTraining,
    task: Any,  # noqa: ANN401
) -> pl.Trainer:
    """Build the `pl.Trainer` of a run, in which the whole run is a single Lightning epoch.

    Args:
        run: run with its folder, record and loggers.
        cfg: configuration of the run.
        schedule: planned steps.
        interval: number of micro-batches between two validations.
        follow: callback for progress and log rows.
        task: Lightning task.

    Raises:
        ConfigError: an option or callback is not allowed, or cannot be instantiated.
    """
    callbacks = [Reproducible(cfg.seed), follow]
    checkpoints = Checkpoints(run.folder, task.spec.monitor, cfg.trainer.checkpoint_every, run.record.started)
    options = build_options(cfg.trainer.options)
    trainer = _trainer(
        [*callbacks, *build_callbacks(cfg, task.spec.monitor, run.folder.path).values(), checkpoints],
        {
            **options,
            **devices_of(cfg.hardware),
            "use_distributed_sampler": False,
            "max_epochs": 1,
            "max_steps": schedule.total_steps,
            "accumulate_grad_batches": schedule.accumulate,
            "gradient_clip_val": cfg.trainer.gradient_clip,
            "val_check_interval": interval,
            "check_val_every_n_epoch": None,
            "num_sanity_val_steps": 0,
            "deterministic": cfg.deterministic,
            "log_every_n_steps": cfg.trainer.log_every,
            # Ranks other than 0 have no loggers, but some callbacks need at least one.
            "logger": run.loggers or [DummyLogger()],
            "default_root_dir": str(run.folder.path),
            "enable_checkpointing": True,
        },
    )
    # Without a file name, profilers write their report to a log.
    if not isinstance(profiler := trainer.profiler, PassThroughProfiler):
        profiler.dirpath = profiler.dirpath or run.folder.path
        profiler.filename = profiler.filename or "profile"
    return trainer


def devices_of(hardware: Hardware) -> dict[str, Any]:
    """Return the `pl.Trainer` arguments for devices, precision and DDP strategy.

    The strategy is DDP if a process group exists.

    Raises:
        ConfigError: the machine does not have the device, or does not support the precision.
    """
    hardware = resolve_profile(hardware)
    options: dict[str, Any] = {"accelerator": hardware.accelerator, "precision": hardware.precision, "devices": 1}
    if dist.is_initialized():
        strategy = DDPStrategy(gradient_as_bucket_view=True)
        options |= {"devices": hardware.devices, "num_nodes": hardware.nodes, "strategy": strategy}
    return options


def _trainer(callbacks: list[pl.Callback], options: Mapping[str, Any]) -> pl.Trainer:
    fixed = {
        # Set explicitly, so that Lightning does not use the environment variables of Slurm or LSF.
        "plugins": [LightningEnvironment(), *options.get("plugins", ())],
        "enable_progress_bar": any(isinstance(callback, lightning.ProgressBar) for callback in callbacks),
        "enable_model_summary": any(isinstance(callback, lightning.ModelSummary) for callback in callbacks),
    }
    try:
        return pl.Trainer(**{**options, **fixed}, callbacks=callbacks)
    except Exception as error:
        raise ConfigError(f"pl.Trainer rejects these options: {shorten_reason(error)}", where=OPTIONS) from error


def open_run_loggers(run: Run, nodes: Nodes, config: Mapping[str, Any], step: int | None = None) -> None:
    """Open the loggers of a run, such as metrics.jsonl, on rank 0.

    Args:
        run: run to which the loggers are added.
        nodes: configured loggers by name.
        config: resolved configuration for the loggers.
        step: step from which the run is resumed. Later rows of metrics.jsonl are removed. None for a new run.
    """
    if ranks.is_rank_zero():
        run.loggers += open_loggers(nodes, run.folder, run.record, config, step)
        run.close_loggers = close_loggers
        for logger in run.loggers:
            if isinstance(logger, Dashboard):
                run.transcript.hand_to(logger.write_logs)


def check_trainer(cfg: RunConfig) -> None:
    """Check loggers, callbacks and trainer options before a run starts, without writing files.

    Raises:
        ConfigError: a part is invalid. The error names the first such part.
    """
    for name, kind in KINDS.items():
        check_kind(getattr(cfg, name), kind, name)
    for key, node in _parts_of(cfg.logger).items():
        check_kind(node, Logger, f"logger.{key}")
    if cfg.trainer.compile:
        check_compiler(cfg.hardware)
    task: Any = get_class(cfg.task["_target_"])
    by_key = build_callbacks(cfg, task.spec.monitor)
    # Tasks of mate declare all their metrics.
    if cfg.task["_target_"].startswith("mate_cli."):
        metrics: list[Any] = [get_class(node["_target_"]) for node in cfg.task.get("metrics") or ()]
        check_monitors(by_key, task.spec.monitor, lambda: [*metric_specs(), *(metric.spec.name for metric in metrics)])
    check_file_names(by_key)
    callbacks = [*by_key.values()]
    options = build_options(cfg.trainer.options)
    saves = any(isinstance(callback, lightning.Checkpoint) for callback in callbacks)
    one_cpu = {"accelerator": "cpu", "devices": 1, "logger": False, "enable_checkpointing": saves}
    with quiet_lightning():
        _trainer(callbacks, {**options, **one_cpu})


def check_file_names(callbacks: Mapping[str, pl.Callback]) -> None:
    """Check the checkpoint file names that Lightning callbacks use, before training.

    Lightning would fail only at the first checkpoint.

    Raises:
        ConfigError: a file name is invalid. The error names its key.
    """
    for key, callback in callbacks.items():
        name = str(getattr(callback, "filename", None) or "")
        if "\0" in name or any(len(os.fsencode(part)) > MAX_NAME for part in name.split("/")):
            hint = f"Use {MAX_NAME} letters at most"
            raise ConfigError("is not the name of a file", where=f"callbacks.{key}.filename", remedy=hint)


def build_callbacks(cfg: RunConfig, monitor: str, folder: Path | None = None) -> dict[str, pl.Callback]:
    """Instantiate the Lightning callbacks that the configuration specifies.

    Args:
        cfg: configuration of the run.
        monitor: metric of the task. Default for `monitor` and, with its direction, for `mode` of callbacks.
        folder: run folder, for files that callbacks write to the working directory by default. None: no folder.

    Raises:
        ConfigError: a callback is not allowed, or cannot be instantiated.
    """
    defaults = {"monitor": monitor, "mode": "max" if spec_to_follow(monitor).direction > 0 else "min"}
    defaults |= {"exclude_batches_path": str(folder)} if folder else {}
    callbacks: dict[str, pl.Callback] = {}
    for key, node in _parts_of(cfg.callbacks).items():
        path = f"callbacks.{key}"
        check_kind(node, pl.Callback, path)
        callbacks[key] = build_part(node, defaults, path)
        _refuse(callbacks[key], path)
    return callbacks


def check_monitors(callbacks: Mapping[str, pl.Callback], monitor: str, computed: Callable[[], Iterable[str]]) -> None:
    """Raise `ConfigError` if a callback monitors a metric that validation does not compute.

    Lightning would fail only after the first validation.

    Args:
        callbacks: callbacks by their names in the configuration.
        monitor: metric of the task, which every validation computes.
        computed: returns the names of all computed metrics. Called only if a callback monitors another metric.

    Raises:
        ConfigError: a monitored metric is not computed. The error suggests similar metrics.
    """
    watched = {key: getattr(callback, "monitor", None) for key, callback in callbacks.items()}
    for key, name in watched.items():
        if not isinstance(name, str) or name == monitor:
            continue
        names = {f"dev/{score}" for score in computed()} | {monitor}
        if name in names or (name.startswith("dev/") and f"dev/{MetricName.parse(name).score}" in names):
            continue
        table = MetricName.parse(monitor).spec.table
        similar = sorted(metric for metric in names if MetricName.parse(metric).spec.table == table)
        guess = f"dev/{name.rpartition('/')[2]}"
        close = [guess] if guess in similar else difflib.get_close_matches(guess, similar, 3, cutoff=0.7)
        hint = f"Did you mean {' or '.join(sorted(close) or [monitor])}?"
        raise ConfigError(f"no validation computes {name}", where=f"callbacks.{key}.monitor", remedy=hint)


def check_scores(cfg: RunConfig, task: TableTask[Any, Any], development: Mapping[str, TableExample]) -> None:
    """Check that validation on the dev split computes every metric that a callback monitors.

    Args:
        cfg: configuration of the run.
        task: task of the run.
        development: dev examples by `example_id`.

    Raises:
        ConfigError: a monitored metric is not computed. The error suggests similar metrics.
    """

    def scores() -> list[str]:
        return [*(task.all_scores([], development) or metric_specs()), *PRUNING_SCORES]

    check_monitors(build_callbacks(cfg, task.spec.monitor), task.spec.monitor, scores)


def _parts_of(nodes: Nodes) -> dict[str, Node]:
    """Return the configured callbacks or loggers by name, without null entries."""
    return {key: node for key, node in nodes.items() if node is not None}


def check_kind(node: Mapping[str, Any], kind: type, where: str) -> None:
    """Check that a configured class is a subclass of `kind`, with its packages installed.

    Args:
        node: configuration with a `_target_`.
        kind: required base class.
        where: configuration key of the node, for the error message.

    Raises:
        ConfigError: the `_target_` is missing or not a subclass of `kind`, or a package is not installed.
    """
    if "_target_" not in node:
        raise ConfigError("has no class", where=where, remedy=f"Add +{where}._target_=...")
    name = str(node["_target_"])
    module, package = PACKAGES.get(name.rpartition(".")[2], ("", ""))
    try:
        import_module(module or __name__)
    except Exception as error:  # the package is missing or broken
        problem = f"needs the package {package} ({shorten_reason(error)})"
        raise ConfigError(problem, where=where, remedy=f"Install it: pip install {package}") from error
    target = get_object(name)
    if inspect.isclass(target) and not issubclass(target, kind):
        prefix = "" if kind in KINDS.values() else "Lightning "
        hint = f"Derive the class from {kind.__module__}.{kind.__name__}"
        raise ConfigError(f"{name} is not a {prefix}{kind.__name__}", where=where, remedy=hint)


def build_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Instantiate the additional `pl.Trainer` arguments that the user configures.

    Raises:
        ConfigError: an argument is unknown, reserved for mate, or cannot be instantiated.
    """
    parameters = inspect.signature(pl.Trainer.__init__).parameters
    for name in options:
        key = f"{OPTIONS}.{name}"
        for hint, names in RESERVED.items():
            if name in names:
                raise ConfigError("is set by the run itself", where=key, remedy=hint)
        if name not in parameters or name == "self":
            matches = difflib.get_close_matches(name, parameters, 1)
            hint = f"Did you mean {matches[0]}?" if matches else "See the keywords of pl.Trainer"
            raise ConfigError("pl.Trainer has no such keyword", where=key, remedy=hint)
    try:
        keywords = instantiate(dict(options), _convert_="all")
    except Exception as error:
        raise ConfigError(f"cannot be built: {shorten_reason(error.__cause__ or error)}", where=OPTIONS) from error
    if "plugins" in keywords and not isinstance(keywords["plugins"], list):
        keywords["plugins"] = [keywords["plugins"]]
    for plugin in keywords.get("plugins", ()):
        _refuse(plugin, f"{OPTIONS}.plugins")
    return keywords


def _refuse(part: object, key: str) -> None:
    for kind, reason in REFUSED.items():
        if isinstance(part, kind):
            raise ConfigError(f"{type(part).__name__} is not supported: {reason}", where=key, remedy="Leave it out")


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Hide Lightning's warnings about data loaders and devices, which mate configures.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C. Lightning converts it to `SystemExit`.
    """
    for name in ("pytorch_lightning", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pytorch_lightning")
        warnings.filterwarnings("ignore", module="lightning_fabric")
        try:
            yield
        except SystemExit as stop:
            if isinstance(stop.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from stop
            raise
