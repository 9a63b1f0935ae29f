"""`mate train`: train one run, the stages of one, or a sweep."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mate_cli.arguments import check_arguments
from mate_cli.cli.app import PROGRAM, answer_by_hydra
from mate_cli.cli.config_dir import find_config, group_choices, read_config
from mate_cli.cli.words import DRY, PRINT_SCRIPT, split_flags
from mate_cli.errors import ConfigError
from mate_cli.runs.record import TrainedRun

if TYPE_CHECKING:
    from mate_cli.pipelines.run_spec import RunSpec
    from mate_cli.runs.record import RunFolder

MODES = {"--run", "--multirun", "--cfg", "--info", "--shell-completion"}
"""Flags of which Hydra takes one."""
SWEEP = "sweep="
NO_RUN = {"--multirun", "--cfg", "--help", "--info", "--hydra-help", "--shell-completion"}
"""Flags that say themselves what is done."""
TEXTS = ("model.freeze", "model.lora.layers")
"""Keys whose values are patterns of names."""
FLAGS_OF_TRAIN = {"--run", "--multirun", "--cfg", "--resolve", "--package", "--config-dir", DRY, PRINT_SCRIPT}
"""Flags that are answered here; Hydra answers those that only ask something."""


def arguments(words: Sequence[str]) -> list[str]:
    """Add what `sweep=NAME` implies to words, and quotes around a pattern that Hydra would stumble over."""
    return expand([quote_pattern(word) for word in words])


def expand(words: Sequence[str]) -> list[str]:
    """Add -m to `sweep=NAME`, unless it is there or nothing is to be run.

    A file of `conf/sweep/` says under `hydra.sweeper.params` what every job has and what varies, and under `rows` what
    a grid cannot say: a list of mappings, one for each row. The jobs have these as overrides of their own, and know
    nothing of the sweep.

    Raises:
        ConfigError: there are several sweeps, or the file holds what the jobs would not get.
    """
    names = [word.removeprefix(SWEEP) for word in words if word.startswith(SWEEP)]
    if not names or names[-1] in ("", "null"):
        return list(words)
    if "," in names[-1]:
        raise ConfigError("has several sweeps", where=f"{SWEEP}{names[-1]}", remedy="Run them one at a time")
    path = find_config(f"sweep/{names[-1]}")
    if other := _find_unknown_key(read_config(path)):
        remedy = f"Write it under hydra.sweeper.params: {other}: ..."
        raise ConfigError(f"a sweep file can only set keys of hydra, not {other}", where=str(path), remedy=remedy)
    return list(words) if NO_RUN & set(split_flags(words)[0]) else ["-m", *words]


def _find_unknown_key(content: dict[str, Any]) -> str | None:
    """Find a key or group in a sweep's file that is not Hydra's."""
    groups = [group.removeprefix("override").strip() for group, _ in group_choices(content)]
    others = [group.lstrip("/") for group in groups if not group.startswith("/hydra/")]
    return next(iter([*others, *(name for name in content if name not in ("defaults", "hydra", "rows"))]), None)


def quote_pattern(word: str) -> str:
    """Quote a pattern of names with brackets in it, which is neither a list nor several values of a sweep."""
    from mate_cli.quoting import quote_text

    key, _, value = word.partition("=")
    plain = key.endswith(TEXTS) and "[" in value and value[0] not in "['\"" and "," not in value
    return f"{key}={quote_text(value)}" if plain else word


def run_words(words: Sequence[str]) -> int:
    """Train what the words say, or show the configuration that would be used.

    Raises:
        MateError: something the user can mend.
    """
    from mate_cli.cli.config.continued import expand_continued

    flags, overrides = split_flags(words)
    overrides = expand_continued(overrides)
    if set(flags) - FLAGS_OF_TRAIN or len(set(flags) & MODES) > 1:
        if DRY in flags and set(flags) & {"--cfg", "--info"}:
            raise ConfigError("shows the jobs of a sweep by itself", where=DRY, remedy="Leave out the other flag")
        answer_by_hydra("train")
        return 0
    if PRINT_SCRIPT in flags:
        from mate_cli.cli.sweeps.submission import print_script
        from mate_cli.cli.sweeps.sweep import run_sweep

        with print_script(overrides):
            return run_sweep(overrides, submit=False)
    if "--multirun" in flags and DRY in flags:
        from mate_cli.cli.dry_run import print_dry_sweep

        return print_dry_sweep(overrides)
    if "--multirun" in flags:
        from mate_cli.cli.sweeps.sweep import run_sweep

        return run_sweep(overrides)
    reject_sweep_options(overrides)
    from mate_cli.cli.config.resolve import resolve

    if DRY in flags and "--cfg" not in flags:
        return print_dry(overrides)
    spec = resolve(overrides)
    if "--cfg" in flags:
        print(config_text(spec, flags.get("--package")), end="")
        return 0
    return start(spec)


def reject_sweep_options(overrides: Sequence[str]) -> None:
    """Check that no override selects a launcher or a sweeper for a single run.

    Raises:
        ConfigError: one does.
    """
    if option := next((word for word in overrides if word.startswith(("hydra/launcher=", "hydra/sweeper="))), None):
        raise ConfigError("applies to sweeps only", where=option, remedy="Add -m")


@check_arguments
def train(words: Sequence[str]) -> TrainedRun:
    """Train one run as `mate train` does; it is `mate_cli.train`.

    Args:
        words: what would be typed behind `mate train`, such as `["experiment=quickstart_cells", "seed=1"]`.

    Returns:
        The record of the run, and its folder.

    Raises:
        MateError: something the user can mend.
    """
    from mate_cli.cli.app import hydra_arguments
    from mate_cli.cli.check import check_machine
    from mate_cli.cli.config.continued import expand_continued
    from mate_cli.cli.config.hydra_errors import wrap_hydra_errors
    from mate_cli.cli.config.resolve import resolve
    from mate_cli.cli.config.syntax import Syntax
    from mate_cli.pipelines.run_spec import prepare_run

    if flags := [word for word in words if word.startswith("-")]:
        raise ConfigError("mate_cli.train takes overrides only", where=flags[0], remedy="Call it once for each run")
    reject_sweep_options(words)
    Syntax("train", texts=TEXTS).check(words)
    words = arguments(words)
    with wrap_hydra_errors("train", words, __file__), hydra_arguments("train", words):
        spec = resolve(expand_continued(words))
        announce(spec)
    check_machine(spec)
    folder = prepare_run(spec)[0]
    execute(spec, folder, spec.trusted())
    return TrainedRun(**vars(folder.read_record()), folder=folder.path)


def print_dry(overrides: Sequence[str]) -> int:
    """Check a run and print what it would train and cost.

    Returns:
        0: it would be trained.

    Raises:
        MateError: it would be refused; where data or a finished run are missing, after the rest is printed.
    """
    from mate_cli.cli.check import check_machine
    from mate_cli.cli.dry_run import check_dry, print_costs, resolve_planned

    spec, absent = resolve_planned(overrides)
    missing = check_dry(spec)
    check_machine(spec)
    print(describe(spec, absent), flush=True)  # to count takes seconds
    print_costs(spec, absent)
    for error in (*absent.values(), missing):
        if error:
            raise error
    return 0


def start(spec: RunSpec) -> int:
    """Check a run, make its folder and train it.

    Returns:
        The exit code.

    Raises:
        MateError: something the user can mend.
    """
    with join_others(spec):
        announce(spec)
        return execute(spec, None, spec.trusted())


@contextmanager
def join_others(spec: RunSpec) -> Iterator[None]:
    """Meet the other processes of a run, where several were started, before its checks: all hear of what one refuses.

    Raises:
        RunError: they do not come, or have another configuration or other code.
    """
    if not os.environ.keys() & {"RANK", "WORLD_SIZE"} and os.environ.get("SLURM_STEP_NUM_TASKS", "1") == "1":
        yield
        return
    from mate_cli.runs import ranks
    from mate_cli.runs.launch import check_processes, find_place, join_processes

    hardware = spec.last.config.hardware
    if find_place(os.environ):
        check_processes(hardware, os.environ)
    with join_processes(hardware):
        ranks.require_agreement(code_facts(spec), "Start all with the same words, in the same version of mate")
        yield


def code_facts(spec: RunSpec) -> dict[str, str]:
    """Return what all processes of a run must have in common before they read data: settings, code and packages."""
    from mate_cli.runs.identity import NO_EFFECT, PLACES, flat_keys, hash_package, telling_values, value_text
    from mate_cli.runs.record import package_versions

    settings = telling_values(flat_keys(spec.values()), (*PLACES, *NO_EFFECT))
    code = {"the code of mate": hash_package(), **spec.code, **package_versions()}
    return {name: value_text(value) for name, value in (settings | code).items()}


def execute(spec: RunSpec, folder: RunFolder | None, trust: Sequence[str], more: Sequence[str] = ()) -> int:
    """Train a run here, or let processes of this machine do so, each of which is `mate run` of its folder.

    Args:
        spec: what is trained.
        folder: of the run; None for one that is to be made.
        trust: what its folder has to be told to trust.
        more: further words for these processes.

    Returns:
        The exit code.

    Raises:
        MateError: something the user can mend.
    """
    from mate_cli.cli.check import check_machine
    from mate_cli.pipelines.run_spec import prepare_run
    from mate_cli.runs import ranks
    from mate_cli.runs.launch import check_processes, find_place, join_processes, train_in_processes
    from mate_cli.runs.lock import acquire_lock, end_with_launcher, release_lock
    from mate_cli.runs.record import STOPPED

    end_with_launcher()
    hardware = spec.last.config.hardware
    if folder is None:
        check_machine(spec)
    else:
        check_processes(hardware, os.environ)
    if hardware.devices > 1 and not find_place(os.environ):
        folder = folder or prepare_run(spec)[0]
        acquire_lock(folder.path)
        command = [*PROGRAM, "run", str(folder.path), *more, *(f"trust={word}" for word in trust)]
        try:
            return train_in_processes(folder, command, hardware)
        finally:
            release_lock(folder.path)
    from mate_cli.pipelines.stages import train_spec  # first: whoever is stopped before it has a folder leaves none

    with join_processes(hardware):
        ranks.wait_for_all()  # whoever refuses what it was to check has ended
        folder = folder or ranks.broadcast_from_rank_zero(lambda: prepare_run(spec)[0])
        try:
            train_spec(spec, folder)
        except KeyboardInterrupt:
            if ranks.is_rank_zero():
                folder.complete_records("interrupted", STOPPED)
            raise
    return 0


def announce(spec: RunSpec) -> None:
    """Check a run, and print what it is called as soon as the quick checks have passed.

    Raises:
        MateError: something the user can mend.
    """
    from mate_cli.cli.check import check_parts, check_quickly
    from mate_cli.runs.identity import configuration_name

    check_quickly(spec)
    stages = f": {', '.join(stage.name.replace('_', ' ') for stage in spec.stages)}" if spec.before else ""
    print(f"{configuration_name(spec.names.experiment, spec.told_by)}{stages}", flush=True)  # torch takes seconds
    check_parts(spec)


def describe(spec: RunSpec, missing: Collection[str] = ()) -> str:
    """Return what a run would train, a line for each of its parts; of some stages the finished run is missing."""
    from pathlib import Path

    from mate_cli.reports.format import plural
    from mate_cli.runs.identity import configuration_name

    config = spec.last.config
    lines = [("run", configuration_name(spec.names.experiment, spec.told_by))]
    for stage in spec.stages:
        names = f"{stage.names.task} on {stage.names.dataset}, {stage.names.model} from {stage.names.init}"
        takes = f"takes {stage.run}" if stage.run else "takes a finished run" if stage.name in missing else names
        lines.append((stage.name.replace("_", " ") or "trains", takes))
    for root in dict.fromkeys(str(stage.config.data["root"]) for stage in spec.stages if stage.config.data.get("root")):
        missing = "" if Path(root).expanduser().exists() else " (downloaded if permitted)"
        lines.append(("data", f"{root}{missing}"))
    hardware = config.hardware
    size = f"{plural(hardware.devices * hardware.nodes, 'device')} x {hardware.micro_batch} examples"
    lines.append(("hardware", f"accelerator {hardware.accelerator}, precision {hardware.precision}, {size}"))
    lines.append(("seed", str(config.seed)))
    lines.append(("below", str(spec.parent)))
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def config_text(spec: RunSpec, package: str | None = None) -> str:
    """Return the configuration of a run, or its part `package`, as YAML: the content of config.yaml of the run.

    Raises:
        ConfigError: no such part of the configuration.
    """
    from omegaconf import MISSING, OmegaConf

    config: Any = OmegaConf.create(spec.values())
    if not package or package == "_global_":
        return OmegaConf.to_yaml(config)
    part = OmegaConf.select(config, package, default=MISSING)
    if part is MISSING:
        raise ConfigError(
            "no such part of the configuration", where=f"--package {package}", remedy="Show all: mate train --cfg job"
        )
    return OmegaConf.to_yaml(part) if OmegaConf.is_config(part) else f"{part}\n"
