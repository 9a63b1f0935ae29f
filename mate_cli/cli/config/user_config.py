"""The user's own configuration in Hydra: files that win over shipped ones, experiments that win over scales."""

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
"""Parts of the configuration that are no stage's."""
OPEN = ("trainer.options.", "callbacks.", "logger.", "task.metrics")
"""Sections to which anything may be added."""


class UserConfig(SearchPathPlugin):
    """Lets Hydra look for a file in the user's own folder before it looks among those that come with the package."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Put the user's folder in front."""
        if folder := user_config_dir():
            search_path.prepend("user", f"file://{folder}", anchor="main")


def use_user_config() -> None:
    """Let the user's files win wherever Hydra composes in this process."""
    Plugins.instance().register(UserConfig)


def read_words(file: Path) -> Iterator[Override]:
    """Yield the choices and values of an experiment's file that are no part of its stages, as overrides."""
    content: Any = OmegaConf.to_container(OmegaConf.load(file))
    for group, name in group_choices(content):
        group = group.removeprefix("override ").removeprefix("/")
        if group != "system":
            yield Override("", group, value_text(name))
    for key, value in flat_keys(content).items():
        if key.partition(".")[0] not in WHOLE:
            yield Override("++" if key.startswith(OPEN) else "", key, write_value(value))


def without_debug(words: Iterable[Override], typed: Iterable[Override]) -> list[Override]:
    """Leave out the words that the chosen file of `debug` wins over."""
    keys = flat_keys(read_config(find_config(f"debug/{last_value(typed, 'debug')}")))
    return [word for word in words if word.key not in keys]


def with_user_experiment(words: Sequence[str], command: str = "train") -> list[str]:
    """Put what an experiment of the user's sets, if words choose one, before them: it wins over the scale."""
    typed, groups = [*map(Override.parse, words)], dict(list_defaults(command))
    experiment = last_value(typed, "experiment") if "experiment" in groups else None
    files = user_experiment_files(str(experiment))
    every = (word for file in files for word in read_words(file))  # a group that is null is refused as a value
    set_by_files = [word for word in every if not word.group or (word.key in groups and word.value != "null")]
    return [*texts(without_debug(set_by_files, [*set_by_files, *typed])), *words]
