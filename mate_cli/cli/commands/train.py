"""`mate train`: train a run with one or several stages, or all runs of a sweep."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mate_cli.arguments import check_arguments
from mate_cli.cli.app import PROGRAM, run_hydra_info_flags
from mate_cli.cli.config_dir import find_config, group_choices, read_config
from mate_cli.cli.overrides import DRY, PRINT_SCRIPT, split_flags
from mate_cli.errors import ConfigError
from mate_cli.runs.record import TrainedRun

if TYPE_CHECKING:
    from mate_cli.pipelines.run_spec import RunSpec
    from mate_cli.runs.record import RunFolder

MODES = {"--run", "--multirun", "--cfg", "--info", "--shell-completion"}
"""Mutually exclusive flags of Hydra."""
SWEEP = "sweep="
"""Prefix of the override that selects a file of `conf/sweep/`."""
NO_RUN = {"--multirun", "--cfg", "--help", "--info", "--hydra-help", "--shell-completion"}
"""Flags with which `sweep=NAME` does not imply `-m`."""
TEXT_KEYS = ("model.freeze", "model.lora.layers")
"""Keys whose values are shell patterns of parameter or layer names, such as `layers.[0-3].*`."""
FLAGS_OF_TRAIN = {"--run", "--multirun", "--cfg", "--resolve", "--package", "--config-dir", DRY, PRINT_SCRIPT}
"""Flags that this module handles. `hydra.main` handles the other flags, which only print information."""


def convert_arguments(arguments: Sequence[str]) -> list[str]:
    """Convert the arguments of `mate train`: add `-m` for a sweep, and quote name patterns."""
    return expand([quote_pattern(argument) for argument in arguments])


def expand(arguments: Sequence[str]) -> list[str]:
    """Add the flag `-m` if an argument selects a sweep with `sweep=NAME`.

    The flag is not added if a flag of `NO_RUN` is set. A file of `conf/sweep/` sets fixed and varying overrides of the
    jobs under `hydra.sweeper.params`. Combinations that are not a grid are listed under `rows`, one mapping per row.
    Jobs receive only their overrides, without `sweep=NAME`.

    Raises:
        ConfigError: several sweeps are selected, or the sweep file sets keys that the jobs would not receive.
    """
    names = [argument.removeprefix(SWEEP) for argument in arguments if argument.startswith(SWEEP)]
    if not names or names[-1] in ("", "null"):
        return list(arguments)
    if "," in names[-1]:
        raise ConfigError("has several sweeps", where=f"{SWEEP}{names[-1]}", remedy="Run them one at a time")
    path = find_config(f"sweep/{names[-1]}")
    if key := _find_unknown_key(read_config(path)):
        hint = f"Write it under hydra.sweeper.params: {key}: ..."
        raise ConfigError(f"a sweep file can only set keys of hydra, not {key}", where=str(path), remedy=hint)
    return list(arguments) if NO_RUN & set(split_flags(arguments)[0]) else ["-m", *arguments]


def _find_unknown_key(content: dict[str, Any]) -> str | None:
    """Return the first unsupported key or group in a sweep file, or None if all are valid."""
    groups = [group.removeprefix("override").strip() for group, _ in group_choices(content)]
    other_groups = [group.lstrip("/") for group in groups if not group.startswith("/hydra/")]
    return next(iter([*other_groups, *(name for name in content if name not in ("defaults", "hydra", "rows"))]), None)


def quote_pattern(argument: str) -> str:
    """Quote the value of an override if it is a pattern with brackets: `layer.[0-3]`.

    Only values of keys in `TEXT_KEYS` are patterns. Lists and comma-separated values of a sweep are unchanged.
    """
    from mate_cli.quoting import quote_text

    key, _, value = argument.partition("=")
    is_pattern = key.endswith(TEXT_KEYS) and "[" in value and value[0] not in "['\"" and "," not in value
    return f"{key}={quote_text(value)}" if is_pattern else argument


def run_command(arguments: Sequence[str]) -> int:
    """Run the command `mate train`, which trains a run or sweep, or prints the plan of a run.

    Args:
        arguments: command-line arguments of `mate train`.

    Returns:
        The exit code.

    Raises:
        MateError: an error that the user can fix.
    """
    from mate_cli.cli.config.continued import expand_continued

    flags, overrides = split_flags(arguments)
    overrides = expand_continued(overrides)
    if set(flags) - FLAGS_OF_TRAIN or len(set(flags) & MODES) > 1:
        if DRY in flags and set(flags) & {"--cfg", "--info"}:
            raise ConfigError("already shows the jobs of a sweep", where=DRY, remedy="Leave out the other flag")
        run_hydra_info_flags("train")
        return 0
    if PRINT_SCRIPT in flags:
        from mate_cli.cli.sweeps.submission import print_script
        from mate_cli.cli.sweeps.sweep import run_sweep

        with print_script(overrides):
            return run_sweep(overrides, submit=False)
    if "--multirun" in flags and DRY in flags:
        from mate_cli.cli.dry_run import print_sweep_plan

        return print_sweep_plan(overrides)
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
    """Raise `ConfigError` if a single run (without `-m`) selects a Hydra launcher or sweeper.

    Raises:
        ConfigError: an override selects a launcher or a sweeper.
    """
    if option := next(
        (argument for argument in overrides if argument.startswith(("hydra/launcher=", "hydra/sweeper="))), None
    ):
        raise ConfigError("applies to sweeps only", where=option, remedy="Add -m")


@check_arguments
def train(arguments: Sequence[str]) -> TrainedRun:
    """Train one run from Python, as `mate train` does.

    Public as `mate_cli.train`.

    Args:
        arguments: overrides as after `mate train`, such as `["experiment=quickstart_cells", "seed=1"]`.

    Returns:
        The record of the run, with its folder.

    Raises:
        MateError: an error that the user can fix.
    """
    from unittest.mock import patch

    from mate_cli.cli.check import check_machine
    from mate_cli.cli.config.continued import expand_continued
    from mate_cli.cli.config.hydra_errors import wrap_hydra_errors
    from mate_cli.cli.config.resolve import resolve
    from mate_cli.cli.config.syntax import Syntax
    from mate_cli.pipelines.run_spec import prepare_run

    if flags := [argument for argument in arguments if argument.startswith("-")]:
        raise ConfigError("mate_cli.train takes overrides only", where=flags[0], remedy="Call it once for each run")
    reject_sweep_options(arguments)
    Syntax("train", texts=TEXT_KEYS).check(arguments)
    arguments = convert_arguments(arguments)
    with wrap_hydra_errors("train", arguments, __file__), patch.object(sys, "argv", ["mate train", *arguments]):
        spec = resolve(expand_continued(arguments))
        announce(spec)
    check_machine(spec)
    folder = prepare_run(spec)[0]
    execute(spec, folder, spec.required_trust())
    return TrainedRun(**vars(folder.read_record()), folder=folder.path)


def print_dry(overrides: Sequence[str]) -> int:
    """Check a run, and print its plan and estimated cost without training.

    Returns:
        0. If the run cannot be trained, an error is raised instead.

    Raises:
        MateError: the run cannot be trained. If only data or a finished run are missing, the plan is printed first.
    """
    from mate_cli.cli.check import check_machine
    from mate_cli.cli.dry_run import check_dry, print_costs, resolve_planned

    spec, absent = resolve_planned(overrides)
    data_error = check_dry(spec)
    check_machine(spec)
    # Flush now, because estimating the cost takes seconds.
    print(describe(spec, absent), flush=True)
    print_costs(spec, absent)
    for error in (*absent.values(), data_error):
        if error:
            raise error
    return 0


def start(spec: RunSpec) -> int:
    """Check a run, create its folder and train it.

    Returns:
        The exit code.

    Raises:
        MateError: an error that the user can fix.
    """
    with init_process_group(spec):
        announce(spec)
        return execute(spec, None, spec.required_trust())


@contextmanager
def init_process_group(spec: RunSpec) -> Iterator[None]:
    """Initialize torch.distributed inside the context.

    An error on one rank then stops all ranks. The configuration and code of all ranks must be equal. A single process
    needs no process group.

    Raises:
        RunError: other ranks do not connect, or their configuration or code differs.
    """
    if not os.environ.keys() & {"RANK", "WORLD_SIZE"} and os.environ.get("SLURM_STEP_NUM_TASKS", "1") == "1":
        yield
        return
    from mate_cli.runs import ranks
    from mate_cli.runs.launch import check_processes, join_processes, read_rank_variables

    hardware = spec.last.hardware
    if read_rank_variables(os.environ):
        check_processes(hardware, os.environ)
    with join_processes(hardware):
        ranks.require_agreement(collect_fingerprint(spec), "Start all with the same arguments and version of mate")
        yield


def collect_fingerprint(spec: RunSpec) -> dict[str, str]:
    """Return the settings, code hashes and package versions that must be equal on all ranks."""
    from mate_cli.runs.identity import PLACES, RESULT_NEUTRAL_KEYS, filter_values, flat_keys, hash_package, value_text
    from mate_cli.runs.record import package_versions

    settings = filter_values(flat_keys(spec.values()), (*PLACES, *RESULT_NEUTRAL_KEYS))
    code = {"the code of mate": hash_package(), **spec.code, **package_versions()}
    return {name: value_text(value) for name, value in (settings | code).items()}


def execute(spec: RunSpec, folder: RunFolder | None, trust: Sequence[str], more: Sequence[str] = ()) -> int:
    """Train a run in this process, or in one `mate run` subprocess per device.

    Subprocesses are used if several devices are configured, unless this process is one rank of a started group.

    Args:
        spec: run to train.
        folder: run folder. None to create a new one.
        trust: values of `trust=` that the subprocesses need to read the run folder.
        more: additional command-line arguments of the subprocesses.

    Returns:
        The exit code.

    Raises:
        MateError: an error that the user can fix.
    """
    from mate_cli.cli.check import check_machine
    from mate_cli.pipelines.run_spec import prepare_run
    from mate_cli.runs import ranks
    from mate_cli.runs.launch import check_processes, join_processes, read_rank_variables, train_in_processes
    from mate_cli.runs.lock import acquire_lock, end_with_launcher, release_lock
    from mate_cli.runs.record import STOPPED

    end_with_launcher()
    hardware = spec.last.hardware
    if folder is None:
        check_machine(spec)
    else:
        check_processes(hardware, os.environ)
    if hardware.devices > 1 and not read_rank_variables(os.environ):
        folder = folder or prepare_run(spec)[0]
        acquire_lock(folder.path)
        command = [*PROGRAM, "run", str(folder.path), *more, *(f"trust={name}" for name in trust)]
        try:
            return train_in_processes(folder, command, hardware)
        finally:
            release_lock(folder.path)
    # Import before the run folder is created, because an interrupt during this slow import should leave no folder.
    from mate_cli.pipelines.stages import train_spec

    with join_processes(hardware):
        # Barrier: a rank whose checks failed has exited by now.
        ranks.wait_for_all()
        folder = folder or ranks.broadcast_from_rank_zero(lambda: prepare_run(spec)[0])
        try:
            train_spec(spec, folder)
        except KeyboardInterrupt:
            if ranks.is_rank_zero():
                folder.complete_records("interrupted", STOPPED)
            raise
    return 0


def announce(spec: RunSpec) -> None:
    """Check a run before training, and print its name and the names of its stages.

    The names are printed after the quick checks, before slower checks that import torch.

    Raises:
        MateError: an error that the user can fix.
    """
    from mate_cli.cli.check import check_parts, check_quickly
    from mate_cli.runs.identity import configuration_name

    check_quickly(spec)
    stages = f": {', '.join(stage.name.replace('_', ' ') for stage in spec.stages)}" if spec.upstream_stages else ""
    # Flush now, because the next checks import torch, which takes seconds.
    print(f"{configuration_name(spec.names.experiment, spec.identity_settings)}{stages}", flush=True)
    check_parts(spec)


def describe(spec: RunSpec, missing: Collection[str] = ()) -> str:
    """Format the plan of a run, which is printed before training.

    Name, stages, data, hardware, seed and folder have one line each.

    Args:
        spec: run to describe.
        missing: names of stages to be replaced by finished runs that do not exist yet.
    """
    from pathlib import Path

    from mate_cli.reports.format import plural
    from mate_cli.runs.identity import configuration_name

    config = spec.last
    lines = [("run", configuration_name(spec.names.experiment, spec.identity_settings))]
    for stage in spec.stages:
        names = f"{stage.names.task} on {stage.names.dataset}, {stage.names.model} from {stage.names.init}"
        takes = f"takes {stage.run}" if stage.run else "takes a finished run" if stage.name in missing else names
        lines.append((stage.name.replace("_", " ") or "trains", takes))
    for root in dict.fromkeys(str(stage.data["root"]) for stage in spec.stages if stage.data.get("root")):
        note = "" if Path(root).expanduser().exists() else " (downloaded if permitted)"
        lines.append(("data", f"{root}{note}"))
    hardware = config.hardware
    size = f"{plural(hardware.devices * hardware.nodes, 'device')} x {hardware.micro_batch} examples"
    lines.append(("hardware", f"accelerator {hardware.accelerator}, precision {hardware.precision}, {size}"))
    lines.append(("seed", str(config.seed)))
    lines.append(("below", str(spec.parent)))
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def config_text(spec: RunSpec, package: str | None = None) -> str:
    """Return the configuration of a run, as written to its config.yaml, or one section of it.

    Args:
        spec: run with the configuration.
        package: dotted key of the section. None or `_global_` for the whole configuration.

    Returns:
        The configuration as YAML.

    Raises:
        ConfigError: the configuration has no section `package`.
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
