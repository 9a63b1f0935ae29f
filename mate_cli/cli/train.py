"""`mate train`: train one run, the stages of one, or a sweep."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mate_cli.cli.app import hydra_entry
from mate_cli.cli.config.plan import compose_plan, hydra_at_work
from mate_cli.cli.config.words import for_sweeper, split_flags
from mate_cli.cli.sweep_file import expand
from mate_cli.cli.validate import target_problems
from mate_cli.errors import ConfigError
from mate_cli.pipelines.plan import Plan, standing_in
from mate_cli.runs.configuration import RunConfig

CONFIG = "train"


def arguments(words: Sequence[str]) -> list[str]:
    """The words with what `sweep=NAME` implies."""
    return expand(words)


def run_words(words: Sequence[str], argv: list[str]) -> int:
    """Train what the words say, or show the configuration that would be used.

    Args:
        words: flags and overrides.
        argv: what starts this command again.

    Raises:
        MateError: something the user can mend.
    """
    flags, overrides = split_flags(words)
    if {"-m", "--multirun"} & set(flags):
        return sweep(words, argv)
    if set(flags) - {"--cfg", "--resolve", "--package", "--config-dir"}:
        hydra_entry(CONFIG, print)()  # Hydra answers these itself
        return 0
    with hydra_at_work(Path(flags["--config-dir"]) if "--config-dir" in flags else None):
        plan = compose_plan(overrides)
    if "--cfg" in flags:
        print(shown(plan, flags.get("--package")), end="")
        return 0
    sys.argv = list(argv)
    check(plan)
    train(plan)
    return 0


def sweep(words: Sequence[str], argv: list[str]) -> int:
    """Hand the words to Hydra's sweeper, which makes jobs of them."""
    from mate_cli.cli.sweep import run_job, run_sweep

    sys.argv = [sys.argv[0], *for_sweeper(sys.argv[1:])]
    return run_sweep(hydra_entry(CONFIG, partial(run_job, command=argv)))


def check(plan: Plan) -> None:
    """Look at all that can be known before a network is built, the quickest first.

    Raises:
        MateError: data or a run that is to stand in for a stage is not there, or a part does not fit its class.
    """
    for stage in plan.stages:
        if stage.run:
            standing_in(stage)
        else:
            check_data(stage.config)
    for stage in plan.stages:
        values = stage.config.model_dump()
        if problems := list(target_problems(values)):
            where = f"stages.{stage.name}" if stage.name else None
            raise ConfigError("\n       ".join(problems), where=where)


def check_data(config: RunConfig) -> None:
    """Refuse data that is neither there nor to be fetched.

    Raises:
        DataError: saying what is missing.
    """
    from hydra.utils import instantiate

    if config.data.get("download") is False:
        dataset = instantiate(config.data)
        _ = dataset.splits


def train(plan: Plan) -> None:
    """Train a plan, in as many processes as its hardware has."""
    from mate_cli.pipelines.stages import run_plan
    from mate_cli.runs.launch import together

    with together(plan.last.config.hardware):
        run_plan(plan)


def shown(plan: Plan, package: str | None = None) -> str:
    """The configuration of a plan as YAML: what config.yaml of the run will hold.

    Args:
        plan: what would be trained.
        package: the part to show; None for all.
    """
    from omegaconf import OmegaConf

    config: Any = OmegaConf.create(plan.values())
    part = OmegaConf.select(config, package) if package else config
    return OmegaConf.to_yaml(part) if OmegaConf.is_config(part) else f"{part}\n"
