"""User configuration in Hydra: user files take precedence over shipped files and scales."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from mate_cli.cli.config_dir import (
    find_config,
    group_choices,
    list_defaults,
    read_config,
    user_config_dir,
    user_experiment_files,
)
from mate_cli.cli.words import Override, last_value, texts
from mate_cli.quoting import write_value
from mate_cli.runs.identity import flat_keys, value_text

WHOLE = ("experiment", "name", "resume", "system", "stages", "sweep", "trust", "hydra", "defaults")
"""Run-level keys, which do not belong to a stage."""
OPEN = ("trainer.options.", "callbacks.", "logger.", "task.metrics")
"""Sections to which any key may be added."""


class UserConfig(SearchPathPlugin):
    """Search path plugin that puts the user's configuration folder before the shipped one."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Prepend the user's configuration folder."""
        if folder := user_config_dir():
            search_path.prepend("user", f"file://{folder}", anchor="main")


def use_user_config() -> None:
    """Enable the user's configuration files for all compositions of this process."""
    Plugins.instance().register(UserConfig)


def read_words(file: Path) -> Iterator[Override]:
    """Yield the options and values of an experiment's file, except run-level keys."""
    content: Any = OmegaConf.to_container(OmegaConf.load(file))
    for group, name in group_choices(content):
        group = group.removeprefix("override ").removeprefix("/")
        if group != "system":
            yield Override("", group, value_text(name))
    for key, value in flat_keys(content).items():
        if key.partition(".")[0] not in WHOLE:
            yield Override("++" if key.startswith(OPEN) else "", key, write_value(value))


def without_debug(words: Iterable[Override], typed: Iterable[Override]) -> list[Override]:
    """Return the overrides whose keys the selected `debug` file does not set."""
    keys = flat_keys(read_config(find_config(f"debug/{last_value(typed, 'debug')}")))
    return [word for word in words if word.key not in keys]


def with_user_experiment(words: Sequence[str], command: str = "train") -> list[str]:
    """Prepend the overrides of a selected user experiment, so that they override the scale.

    Args:
        words: overrides from the command line.
        command: command that is composed.
    """
    overrides, groups = [*map(Override.parse, words)], dict(list_defaults(command))
    experiment = last_value(overrides, "experiment") if "experiment" in groups else None
    files = user_experiment_files(str(experiment))
    file_overrides = (override for file in files for override in read_words(file))  # validation rejects a null group
    set_by_files = [
        override
        for override in file_overrides
        if not override.group or (override.key in groups and override.value != "null")
    ]
    return [*texts(without_debug(set_by_files, [*set_by_files, *overrides])), *words]
