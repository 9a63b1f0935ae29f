"""Convert files of a user-defined experiment to overrides.

Hydra would apply an experiment file before the `scale` and its recipes. As overrides, the values of the file take
precedence over both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from mate_cli.cli.config_dir import find_config, group_choices, list_defaults, read_config, user_experiment_files
from mate_cli.cli.overrides import EXTENSIBLE_SECTIONS, RUN_LEVEL_KEYS, Override, get_override_value, to_strings
from mate_cli.quoting import write_value
from mate_cli.runs.identity import flat_keys, value_text


def read_experiment_overrides(file: Path) -> Iterator[Override]:
    """Yield the config group options and values of an experiment's file as overrides.

    Keys of `RUN_LEVEL_KEYS` are excluded.
    """
    content: Any = OmegaConf.to_container(OmegaConf.load(file))
    for group, name in group_choices(content):
        group = group.removeprefix("override ").removeprefix("/")
        if group != "system":
            yield Override("", group, value_text(name))
    for key, value in flat_keys(content).items():
        if key.partition(".")[0] not in RUN_LEVEL_KEYS:
            yield Override("++" if key.startswith(EXTENSIBLE_SECTIONS) else "", key, write_value(value))


def drop_debug_overridden(overrides: Iterable[Override], typed: Iterable[Override]) -> list[Override]:
    """Return the overrides except those of keys that the selected `debug` file sets.

    The `debug` file thereby takes precedence.

    Args:
        overrides: overrides to filter.
        typed: overrides that may select a `debug` file.
    """
    keys = flat_keys(read_config(find_config(f"debug/{get_override_value(typed, 'debug')}")))
    return [override for override in overrides if override.key not in keys]


def with_user_experiment(arguments: Sequence[str], command: str = "train") -> list[str]:
    """Prepend the overrides of the selected user-defined experiment.

    For an experiment of the package, the arguments are returned unchanged.

    Args:
        arguments: overrides from the command line.
        command: command to compose.
    """
    overrides, groups = [*map(Override.parse, arguments)], dict(list_defaults(command))
    experiment = get_override_value(overrides, "experiment") if "experiment" in groups else None
    files = user_experiment_files(str(experiment))
    set_by_files = [
        override
        for override in chain.from_iterable(map(read_experiment_overrides, files))
        # Validation rejects a null group.
        if not override.group or (override.key in groups and override.value != "null")
    ]
    return [*to_strings(drop_debug_overridden(set_by_files, [*set_by_files, *overrides])), *arguments]
