"""All that can be known of a run before a network is built, the cheapest first; nothing is written."""

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

if TYPE_CHECKING:
    from mate_cli.pipelines.run_spec import RunSpec, Stage
    from mate_cli.runs.configuration import Nodes, RunConfig

ANSWER = 5.0
"""Seconds in which the server of a logger has to answer."""
PUBLISHED = {
    "google/tapas-": ("tiny", "mini", "small", "medium", "base", "large"),
    "bert-": ("base", "large"),
    "FacebookAI/roberta-": ("base", "large"),
}
"""Sizes on the Hugging Face hub, by the names that stand before them.

Source: https://huggingface.co/google, google-bert and FacebookAI
"""
FROM_STAGE = "stages."


def check_parts(spec: RunSpec) -> None:
    """Refuse parts that do not fit their classes or each other; loads torch, which takes seconds.

    Raises:
        ConfigError: naming the key and the remedy.
    """
    from hydra.utils import instantiate

    from mate_cli.cli.config.validate import refuse, target_problems
    from mate_cli.data.loading.batching import check_shares
    from mate_cli.pipelines.assembly import check_label
    from mate_cli.pipelines.trainer import check_trainer

    if spec.system:
        instantiate(spec.system).check([stage.name for stage in spec.stages])
    for stage in spec.stages:
        if stage.run:
            continue
        refuse(target_problems(stage.config.model_dump()), stage.name)
        try:
            check_trainer(stage.config)
            check_label(stage.config)
            check_shares(stage.config.trainer.batch_size, stage.config.hardware.devices * stage.config.hardware.nodes)
            for key, node in stage.config.callbacks.items():
                name, patience = ((node or {}).get(part) for part in ("_target_", "patience"))
                if str(name).endswith(".EarlyStopping") and isinstance(patience, int) and patience < 0:
                    raise ConfigError("must be 0 or more", where=f"callbacks.{key}.patience")
        except ConfigError as error:
            raise ConfigError(str(error), where=f"stages.{stage.name}" if stage.name else None) from error
    for stage in spec.stages:  # last: whatever else is wrong is seen without them
        if not stage.run and hasattr(data := instantiate(stage.config.data), "check_sources"):
            data.check_sources()


def check_quickly(spec: RunSpec, job: int = 0) -> None:
    """Refuse wrong types, runs and folders that are not there, and loggers that cannot log: all without torch.

    Raises:
        MateError: naming the key and the remedy.
    """
    from mate_cli.cli.config.validate import refuse, target_problems

    trained = [stage for stage in spec.stages if not stage.run]
    for stage in trained:
        refuse(target_problems(stage.config.model_dump(), quick=True), stage.name)

    from mate_cli.files.targets import find_beside, find_targets
    from mate_cli.runs.wandb_runs import wandb_mode

    check_folder(spec, job)
    if dashboard := spec.last.config.logger.get("wandb"):
        wandb_mode(dashboard)
    for stage in trained:
        check_servers(stage.config.logger)
    folder = user_config_dir()
    for stage in trained:
        check_root(spec, stage)
        try:
            check_init(stage.config.init, stage.config.model.get("size"), stage.names.init)
            check_ranker(stage.config)
        except MateError as error:
            raise type(error)(error.problem, where=_prefix_stage(stage, error.where), remedy=error.remedy) from error
        find_beside(
            find_targets(stage.config.model_dump()), Path.cwd(), *([folder.absolute().parent] if folder else [])
        )
        check_data(stage.config)


def check_folder(spec: RunSpec, job: int) -> None:
    """Refuse a run to continue that is not there or is another one, and a name that is taken.

    Raises:
        RunError: naming the folder.
    """
    from mate_cli.runs.folders import check_name, find_resumable

    if spec.resume and spec.resume != "missing":
        find_resumable(spec.resume, spec.parent, spec.values())
    elif spec.name and not spec.resume:
        check_name(spec.outputs, spec.below, job, spec.name)


def check_servers(loggers: Nodes) -> None:
    """Refuse the address of a server that nobody answers at: a logger would find out after the data are prepared.

    Raises:
        ConfigError: naming it.
    """
    for key, node in loggers.items():
        for name, value in (node or {}).items():
            if isinstance(value, str) and value.startswith(("http://", "https://")) and not answers(value):
                problem = f"{value} cannot be reached"
                remedy = "Start the server, or log without it: logger=none; metrics.jsonl holds everything"
                raise ConfigError(problem, where=f"logger.{key}.{name}", remedy=remedy)


@cache
def answers(address: str) -> bool:
    """Ask a server for a sign of life, by the proxy that the environment names; whatever it answers is one."""
    from ssl import SSLError
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    try:
        urlopen(address, timeout=ANSWER).close()
    except HTTPError:
        return True
    except URLError as error:
        return isinstance(error.reason, SSLError)
    except (OSError, ValueError):
        return False
    return True


def check_machine(spec: RunSpec) -> None:
    """Refuse processes that nobody has started, and a device or precision that this machine, which trains, lacks.

    Raises:
        ConfigError: naming the key and the remedy.
    """
    from mate_cli.pipelines.machine import resolve_profile
    from mate_cli.runs.launch import check_processes

    check_processes(spec.last.config.hardware, os.environ)
    for stage in spec.stages:
        if not stage.run:
            resolve_profile(stage.config.hardware)


def check_root(spec: RunSpec, stage: Stage) -> None:
    """Refuse a folder of data that is typed and not there: nothing is downloaded into it.

    Raises:
        DataError: naming it.
    """
    from mate_cli.cli.words import Override

    root = stage.config.data.get("root")
    typed = {Override.parse(word).key for word in (*spec.overrides, *stage.overrides)}
    if root and typed & {"data.root", f"stages.{stage.name}.data.root"} and not Path(root).expanduser().exists():
        remedy = "Give the folder with the data, or leave it out; mate data download fetches public data"
        raise DataError("there is no such folder", where=f"data.root={root}", remedy=remedy)


def check_ranker(config: RunConfig) -> None:
    """Refuse a run that is to rank rows and is not there.

    Raises:
        RunError: naming one that is.
    """
    from mate_cli.runs.folders import open_run

    ranked_by = config.encoding.get("ranked_by")
    if ranked_by and not str(ranked_by).startswith(FROM_STAGE):
        open_run(str(ranked_by), "encoding.ranked_by", "cell_selection")


def _prefix_stage(stage: Stage, where: str | None) -> str | None:
    """Return a place in a stage's configuration as it is typed."""
    return f"stages.{stage.name}.{where}" if stage.name and where and "/" not in where.partition("=")[0] else where


def check_data(config: RunConfig) -> None:
    """Refuse data that is neither there nor to be fetched, and files of further questions that are not there.

    Raises:
        DataError: saying what is missing.
    """
    from hydra.utils import instantiate

    from mate_cli.data.datasets.catalogue import require_train

    if config.data.get("download") is False:
        require_train(instantiate(config.data))
    if config.data.get("extra_train") and (check := getattr(instantiate(config.data), "check_extra", None)):
        check()


def check_init(init: Mapping[str, Any], size: object, choice: str | None, key: str = "init") -> None:
    """Refuse first weights of a size that nobody has published, and those of a file that is not there.

    Args:
        init: the group's values.
        size: of the network, which names of weights follow.
        choice: of the group, to name it in errors.
        key: where the values stand.

    Raises:
        ConfigError: there are no such weights, or those that are named would not be read.
        CheckpointError: there is no such file, or the folder has no weights.
    """
    kind, checkpoint = init.get("kind"), init.get("checkpoint")
    for name, inner in (init.get("inner") or {}).items():
        if isinstance(inner, Mapping):
            check_init(inner, size, None, f"{key}.inner.{name}")
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
    """Refuse a name that was made of a size which is not published.

    Raises:
        ConfigError: with the sizes that are.
    """
    for prefix, sizes in PUBLISHED.items():
        match = re.match(rf"{re.escape(prefix)}{re.escape(size)}(?=$|[-@])", checkpoint)
        if not match or size in sizes:
            continue
        whole = size.partition(":")[0]
        if whole in sizes:
            names = checkpoint.replace(size, whole, 1)
            tokenizer = f" {key}.tokenizer={names}" if "tapas" in names else ""
            remedy = f"Type {key}.checkpoint={names}{tokenizer}, whose first layers are read"
        else:
            other = "init=minilm" if whole == "minilm" else "init=random"
            remedy = f"Use {other}, or set model.size to one of these"
        raise ConfigError(
            f"no {prefix.rstrip('-')} of size {size} is published; its sizes are {', '.join(sizes)}",
            where=f"init={choice}" if key == "init" else key,
            remedy=remedy,
        )


def _check_path(path: Path, key: str) -> None:
    """Refuse a path with nothing at it, and a folder that has runs and no weights of its own.

    Raises:
        CheckpointError: naming weights of a run below it, where there are any.
    """
    if path.is_file() or any(path.parent.glob(f"{glob.escape(path.name)}.*")):  # the prefix of a TensorFlow checkpoint
        return
    if not path.is_dir():
        raise CheckpointError("there is no such file or folder", where=f"{key}.checkpoint={path}")
    if not any(entry.is_file() for entry in path.iterdir()) or (path / "config.yaml").is_file():
        remedy = suggest_run_weights(path, f"{key}.checkpoint") or "Name a file of weights, or a folder with one"
        raise CheckpointError("no weights in this folder", where=f"{key}.checkpoint={path}", remedy=remedy)
