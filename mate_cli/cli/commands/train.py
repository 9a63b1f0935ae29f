"""`mate train`: train one run, the stages of one, or a sweep."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mate_cli.cli.app import hydra_entry
from mate_cli.cli.flags import split_flags
from mate_cli.errors import ConfigError

if TYPE_CHECKING:
    from mate_cli.pipelines.plan import Plan
    from mate_cli.runs.configuration import RunConfig

CONFIG = "train"
MODES = {"--run", "--multirun", "--cfg", "--info", "--shell-completion"}
"""Flags of which Hydra takes one."""
OURS = {"--run", "--multirun", "--cfg", "--resolve", "--package", "--config-dir", "--print-script"}
"""Flags that are answered here; Hydra answers those that only ask something."""
NOT_OURS = ("--config-name", "--config-path", "--experimental-rerun")
"""Flags that ask for other configurations than those of stages."""


def arguments(words: Sequence[str]) -> list[str]:
    """The words with what `sweep=NAME` implies."""
    if not any(word.startswith("sweep=") for word in words):
        return list(words)
    from mate_cli.cli.sweeps.sweep_file import expand

    return expand(words)


def run_words(words: Sequence[str], argv: list[str]) -> int:
    """Train what the words say, or show the configuration that would be used.

    Raises:
        MateError: something the user can mend.
    """
    flags, overrides = split_flags(words)
    if refused := [flag for flag in NOT_OURS if flag in flags]:
        raise ConfigError("mate train has no such flag", where=refused[0], remedy="Use --config-dir FOLDER")
    if set(flags) - OURS or len(set(flags) & MODES) > 1:
        hydra_entry(CONFIG, print)()
        return 0
    folder = Path(flags["--config-dir"]) if "--config-dir" in flags else None
    if "--print-script" in flags:
        from mate_cli.cli.sweeps.submission import printing_script

        with printing_script(overrides):
            return sweep(overrides, folder, argv)
    if "--multirun" in flags:
        return sweep(overrides, folder, argv)

    from mate_cli.cli.config.plan import compose_plan
    from mate_cli.cli.config.telling import telling

    plan = compose_plan(overrides, folder)
    if "--cfg" in flags:
        print(config_text(plan, flags.get("--package")), end="")
        return 0
    sys.argv = list(argv)
    check_plan(plan, folder)
    return train_plan(telling(plan, folder), argv)


def sweep(overrides: Sequence[str], folder: Path | None, argv: list[str]) -> int:
    """Hand the overrides to Hydra's sweeper, which makes jobs of them."""
    from mate_cli.cli.config.words import for_sweeper
    from mate_cli.cli.config_dir import user_config_dir
    from mate_cli.cli.sweeps.sweep import run_job, run_sweep

    own = folder or user_config_dir()
    sys.argv = [sys.argv[0], "--multirun", *for_sweeper(overrides), *(["--config-dir", str(own)] if own else [])]
    return run_sweep(hydra_entry(CONFIG, partial(run_job, typed=overrides, folder=folder, program=argv[:2])))


def check_plan(plan: Plan, folder: Path | None = None) -> None:
    """Look at all that can be known before a network is built, the quickest first.

    Raises:
        MateError: data is not there, or a part does not fit its class.
    """
    from mate_cli.files.own_modules import find_beside
    from mate_cli.files.targets import targets
    from mate_cli.runs.tracking import wandb_mode

    trained = [stage for stage in plan.stages if not stage.run]
    if plan.last.config.logger.kind == "wandb":
        wandb_mode(plan.last.config.logger.model_dump())
    for stage in trained:
        find_beside(targets(stage.config.model_dump()), Path.cwd(), *([folder.absolute().parent] if folder else []))
        check_data(stage.config)

    from mate_cli.cli.config.validate import target_problems
    from mate_cli.pipelines.assembly import check_label  # loads Lightning, which takes seconds

    for stage in trained:
        where, values = f"stages.{stage.name}" if stage.name else None, stage.config.model_dump()
        if problems := list(target_problems(values)):
            raise ConfigError("\n       ".join(problems), where=where)
        try:
            check_label(stage.config)
        except ConfigError as error:
            raise ConfigError(str(error), where=where) from error


def check_data(config: RunConfig) -> None:
    """Refuse data that is neither there nor to be fetched, and files of further questions that are not there.

    Raises:
        DataError: saying what is missing.
    """
    from hydra.utils import instantiate

    from mate_cli.data.datasets.catalogue import need_train

    if config.data.get("download") is False:
        need_train(instantiate(config.data))
    if config.data.get("extra_train") and (check := getattr(instantiate(config.data), "check_extra", None)):
        check()


def train_plan(plan: Plan, argv: Sequence[str]) -> int:
    """Train a plan: here, or in several processes, which type the same again with the folder of the run.

    Returns:
        The exit code.
    """
    from mate_cli.cli.config.quoting import quoted
    from mate_cli.cli.sweeps.sweep import open_job
    from mate_cli.runs.launch import check_processes, find_place, join_processes, train_in_processes

    hardware = plan.last.config.hardware
    check_processes(hardware, os.environ)
    if hardware.devices > 1 and not find_place(os.environ):
        folder, _, over = open_job(plan, 0)
        if not over:
            words = [word for word in argv if not word.lstrip("+").startswith("resume=")]
            return train_in_processes(folder, [sys.executable, *words, f"resume={quoted(str(folder.path))}"], hardware)
    from mate_cli.pipelines.stages import run_plan

    with join_processes(hardware):
        run_plan(plan)
    return 0


def config_text(plan: Plan, package: str | None = None) -> str:
    """The configuration of a plan, or the part that `package` names, as YAML: what config.yaml of the run will hold.

    Raises:
        ConfigError: there is no such part.
    """
    from omegaconf import MISSING, OmegaConf

    config: Any = OmegaConf.create(plan.values())
    if not package or package == "_global_":
        return OmegaConf.to_yaml(config)
    part = OmegaConf.select(config, package, default=MISSING)
    if part is MISSING:
        raise ConfigError("there is no such part", where=f"--package {package}", remedy="All: mate train --cfg job")
    return OmegaConf.to_yaml(part) if OmegaConf.is_config(part) else f"{part}\n"
