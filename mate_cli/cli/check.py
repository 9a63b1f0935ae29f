"""Checks of a run before its network is built. They write no files."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mate_cli.cli.config_dir import user_config_dir
from mate_cli.errors import CheckpointError, ConfigError, DataError, MateError
from mate_cli.files.run_weights import suggest_run_weights
from mate_cli.pipelines.run_spec import FROM_STAGE

if TYPE_CHECKING:
    from mate_cli.pipelines.run_spec import RunSpec, Stage
    from mate_cli.runs.configuration import Nodes, RunConfig

SERVER_TIMEOUT_SECONDS = 5.0
"""Timeout in seconds for the response of a logger's server."""
PUBLISHED_SIZES = {
    "google/tapas-": ("tiny", "mini", "small", "medium", "base", "large"),
    "bert-": ("base", "large"),
    "FacebookAI/roberta-": ("base", "large"),
}
"""Network sizes published on the Hugging Face Hub, by prefix of the checkpoint name.

Source: https://huggingface.co/google, google-bert and FacebookAI
"""


def check_parts(spec: RunSpec) -> None:
    """Check that the options of the classes in a run's configuration fit together.

    For example, the task must fit the encoding, and the batch size must be divisible among devices. Imports torch,
    which takes seconds.

    Raises:
        ConfigError: an option is invalid, or two options contradict each other. The error names the key and a hint.
    """
    from hydra.utils import instantiate

    from mate_cli.cli.config.validate import refuse, target_problems
    from mate_cli.data.loading.batching import check_shares
    from mate_cli.pipelines.assembly import check_label
    from mate_cli.pipelines.systems.base import System
    from mate_cli.pipelines.trainer import check_trainer

    if spec.system:
        system = instantiate(spec.system)
        if not isinstance(system, System):
            hint = "Leave it out, or use it with mate evaluate"
            raise ConfigError("joins no stages", where="system", remedy=hint)
        system.check([stage.name for stage in spec.stages])
    for stage in spec.stages:
        if stage.run:
            continue
        refuse(target_problems(stage.model_dump()), stage.name)
        try:
            check_trainer(stage)
            check_label(stage)
            check_shares(stage.trainer.batch_size, stage.hardware.devices * stage.hardware.nodes)
            for key, node in stage.callbacks.items():
                name, patience = ((node or {}).get(part) for part in ("_target_", "patience"))
                if str(name).endswith(".EarlyStopping") and isinstance(patience, int) and patience < 0:
                    raise ConfigError("must be 0 or more", where=f"callbacks.{key}.patience")
        except ConfigError as error:
            raise ConfigError(str(error), where=f"stages.{stage.name}" if stage.name else None) from error
    # Check data sources last, so that missing sources do not hide other errors.
    for stage in spec.stages:
        if not stage.run and hasattr(data := instantiate(stage.data), "check_sources"):
            data.check_sources()


def check_quickly(spec: RunSpec, job: int = 0) -> None:
    """Check the configuration, folders, data and loggers of a run without importing torch.

    Args:
        spec: run to check.
        job: number of the run in a sweep, which is part of its folder name. 0 for a single run.

    Raises:
        MateError: a type is wrong, a run or folder is missing, or a logger cannot log. The error names the key.
    """
    from mate_cli.cli.config.class_options import read_options
    from mate_cli.cli.config.validate import refuse, target_problems

    stages = [stage for stage in spec.stages if not stage.run]
    for stage in stages:
        refuse(target_problems(stage.model_dump(), options_of=read_options), stage.name)

    from mate_cli.files.targets import find_beside, find_targets
    from mate_cli.runs.wandb_runs import wandb_mode

    check_folder(spec, job)
    if dashboard := spec.last.logger.get("wandb"):
        wandb_mode(dashboard)
    for stage in stages:
        check_servers(stage.logger)
    folder = user_config_dir()
    for stage in stages:
        check_root(spec, stage)
        try:
            check_init(stage.init, stage.model.get("size"), stage.names.init)
            check_ranker(stage)
        except MateError as error:
            raise type(error)(error.problem, where=_prefix_stage(stage, error.where), remedy=error.remedy) from error
        find_beside(find_targets(stage.model_dump()), Path.cwd(), *([folder.absolute().parent] if folder else []))
        check_data(stage)


def check_folder(spec: RunSpec, job: int) -> None:
    """Check that the run to resume is resumable, or that the name of a new run is unused.

    Args:
        spec: run to check.
        job: number of the run in a sweep, which is part of its folder name. 0 for a single run.

    Raises:
        RunError: the run to resume is missing or has another configuration, or the run name already exists.
    """
    from mate_cli.runs.folders import check_name, find_resumable

    if spec.resume and spec.resume != "missing":
        find_resumable(spec.resume, spec.parent, spec.values())
    elif spec.name and not spec.resume:
        check_name(spec.outputs, spec.experiment_path, job, spec.name)


def check_servers(loggers: Nodes) -> None:
    """Check that the server of each configured logger, such as W&B, responds.

    Without this check, a logger would fail only after the data have been prepared.

    Args:
        loggers: configuration nodes of the loggers. Each `http` or `https` address in a node is checked.

    Raises:
        ConfigError: a server does not respond.
    """
    for key, node in loggers.items():
        for name, value in (node or {}).items():
            if isinstance(value, str) and value.startswith(("http://", "https://")) and not is_reachable(value):
                problem = f"{value} cannot be reached"
                hint = "Start the server, or log without it: logger=none; metrics.jsonl contains all metrics"
                raise ConfigError(problem, where=f"logger.{key}.{name}", remedy=hint)


@cache
def is_reachable(address: str) -> bool:
    """Return whether a server is reachable, using the proxy of the environment.

    After any HTTP response or a TLS error, the server is reachable. The result is cached per address.
    """
    from ssl import SSLError
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    try:
        urlopen(address, timeout=SERVER_TIMEOUT_SECONDS).close()
    except HTTPError:
        return True
    except URLError as error:
        return isinstance(error.reason, SSLError)
    except (OSError, ValueError):
        return False
    return True


def check_machine(spec: RunSpec) -> None:
    """Check that this machine can run the configured ranks, devices and precisions.

    Raises:
        ConfigError: ranks are missing, or the device or precision is not available. The error names the key.
    """
    from mate_cli.pipelines.machine import resolve_profile
    from mate_cli.runs.launch import check_processes

    check_processes(spec.last.hardware, os.environ)
    for stage in spec.stages:
        if not stage.run:
            resolve_profile(stage.hardware)


def check_root(spec: RunSpec, stage: Stage) -> None:
    """Check that a data folder given on the command line (`data.root=FOLDER`) exists.

    A download does not create such a folder, so that a mistyped path raises an error.

    Raises:
        DataError: the folder does not exist.
    """
    from mate_cli.cli.overrides import Override

    root = stage.data.get("root")
    keys = {Override.parse(override).key for override in (*spec.overrides, *stage.overrides)}
    if root and keys & {"data.root", f"stages.{stage.name}.data.root"} and not Path(root).expanduser().exists():
        hint = "Give the folder with the data, or leave it out; mate data download gets public data"
        raise DataError("there is no such folder", where=f"data.root={root}", remedy=hint)


def check_ranker(config: RunConfig) -> None:
    """Check that the run which `encoding.ranked_by` names exists.

    This cell selection run ranks the table rows. References to a stage of the same run are not checked.

    Raises:
        RunError: the run is missing. The error suggests a run that exists.
    """
    from mate_cli.runs.folders import open_run

    ranked_by = config.encoding.get("ranked_by")
    if ranked_by and not str(ranked_by).startswith(FROM_STAGE):
        open_run(str(ranked_by), "encoding.ranked_by", "cell_selection")


def _prefix_stage(stage: Stage, key: str | None) -> str | None:
    """Add the prefix `stages.NAME.` of a stage to the configuration key of an error.

    Paths, and keys of a stage without a name, are unchanged.
    """
    return f"stages.{stage.name}.{key}" if stage.name and key and "/" not in key.partition("=")[0] else key


def check_data(config: RunConfig) -> None:
    """Check that the local files of the training data exist.

    The training data must exist if `data.download=false`, the files in `data.extra_train` always.

    Raises:
        DataError: data are missing, or no task can train on them.
    """
    from hydra.utils import get_object, instantiate

    from mate_cli.data.datasets.catalogue import require_train

    is_untrainable = bool(getattr(get_object(config.data["_target_"]), "untrainable", ""))
    if is_untrainable or config.data.get("download") is False:
        require_train(instantiate(config.data))
    if config.data.get("extra_train") and (check := getattr(instantiate(config.data), "check_extra", None)):
        check()


def check_init(init: Mapping[str, Any], size: object, choice: str | None, key: str = "init") -> None:
    """Check that the initial weights exist, as a published checkpoint or as a file.

    Args:
        init: values of the config group `init`.
        size: size of the network, which is part of the name of a published checkpoint.
        choice: selected option of the config group, for error messages. None to show the value of `init.kind`.
        key: configuration key of `init`, for error messages.

    Raises:
        ConfigError: no checkpoint of this size is published, or the named checkpoint would not be read.
        CheckpointError: the file is missing, or the folder contains no weights.
    """
    kind, checkpoint = init.get("kind"), init.get("checkpoint")
    for name, node in (init.get("inner") or {}).items():
        if isinstance(node, Mapping):
            check_init(node, size, None, f"{key}.inner.{name}")
    if not isinstance(checkpoint, str) or kind is None or checkpoint.startswith(FROM_STAGE):
        return
    if kind in ("random", "minilm"):
        problem = f"{kind} weights are not read from a checkpoint"
        raise ConfigError(problem, where=f"{key}.checkpoint", remedy="Use init=path, or leave it out")
    if kind == "path":
        _check_path(Path(checkpoint), key)
    elif not Path(checkpoint).exists():
        _check_size(checkpoint, str(size), choice or kind, key)


def _check_size(checkpoint: str, size: str, choice: str, key: str) -> None:
    """Check that a checkpoint is published in the size that its name contains, such as `base`.

    The published sizes are in `PUBLISHED_SIZES`.

    Raises:
        ConfigError: no checkpoint of this size is published. The error lists the published sizes.
    """
    for prefix, sizes in PUBLISHED_SIZES.items():
        match = re.match(rf"{re.escape(prefix)}{re.escape(size)}(?=$|[-@])", checkpoint)
        if not match or size in sizes:
            continue
        base_size = size.partition(":")[0]
        if base_size in sizes:
            names = checkpoint.replace(size, base_size, 1)
            tokenizer = f" {key}.tokenizer={names}" if "tapas" in names else ""
            hint = f"Type {key}.checkpoint={names}{tokenizer}, whose first layers are read"
        else:
            option = "init=minilm" if base_size == "minilm" else "init=random"
            hint = f"Use {option}, or set model.size to one of these"
        raise ConfigError(
            f"no {prefix.rstrip('-')} of size {size} is published; its sizes are {', '.join(sizes)}",
            where=f"init={choice}" if key == "init" else key,
            remedy=hint,
        )


def _check_path(path: Path, key: str) -> None:
    """Check that a path is a weights file, a TensorFlow checkpoint or a folder with weights.

    Raises:
        CheckpointError: the path is missing or contains no weights. The error suggests weights of a run below it.
    """
    # A TensorFlow checkpoint is named by the common prefix of its files.
    if path.is_file() or any(path.parent.glob(f"{glob.escape(path.name)}.*")):
        return
    if not path.is_dir():
        raise CheckpointError("there is no such file or folder", where=f"{key}.checkpoint={path}")
    if not any(entry.is_file() for entry in path.iterdir()) or (path / "config.yaml").is_file():
        hint = suggest_run_weights(path, f"{key}.checkpoint") or "Name a file of weights, or a folder with one"
        raise CheckpointError("no weights in this folder", where=f"{key}.checkpoint={path}", remedy=hint)
