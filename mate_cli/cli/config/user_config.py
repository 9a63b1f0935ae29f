"""The user's own configuration in Hydra: files that win over shipped ones, experiments that win over scales."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf

from mate_cli.cli.config_dir import (
    EXPERIMENT_LAST,
    defaults_of,
    read_config,
    user_config_dir,
    user_experiment_files,
)
from mate_cli.cli.words import Override

PACKAGE = re.compile(r"\s*#\s*@package\s+(\S+)")
"""The first line of a file that says where its keys go."""


class UserConfig(SearchPathPlugin):
    """Lets Hydra look for a file in the user's own folder before it looks among those that come with the package."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Put the user's folder in front."""
        if folder := user_config_dir():
            search_path.prepend("user", f"file://{folder}", anchor="main")
            search_path.append("user_experiment", f"{UserExperiments.scheme()}://")


class UserExperiments(ConfigSource):
    """Gives Hydra an experiment of the user's once more, to lay it over the scale and its recipes.

    It is the file without the shipped one that it extends, and without groups that it adds: those are composed where
    `experiment` stands.
    """

    @staticmethod
    def scheme() -> str:
        """Return the scheme of its search path."""
        return "experiment"

    def load_config(self, config_path: str) -> ConfigResult:
        """Read the values of a file, and the names of the user's files that it extends."""
        file = _files(config_path)[-1]
        config = OmegaConf.load(file)
        if isinstance(config, DictConfig) and config.pop("defaults", None):
            config.defaults = [name for entry in defaults_of(read_config(file)) if (name := _repeat(entry))]
        package = PACKAGE.match(file.read_text(encoding="utf-8"))
        header = {"package": package[1] if package else "experiment"}
        return ConfigResult(self.provider, self.full_path(), config, header)

    def is_config(self, config_path: str) -> bool:
        """Say whether the user has such an experiment."""
        return config_path.startswith(EXPERIMENT_LAST) and bool(_files(config_path))

    def is_group(self, config_path: str) -> bool:
        """Say whether it is the group of these experiments."""
        return config_path.strip("/") == EXPERIMENT_LAST

    def available(self) -> bool:
        """Say that there is such a folder: it is searched only then."""
        return True

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """List nothing: the names are those of the group `experiment`."""
        return []


def _files(config_path: str) -> list[Path]:
    """Return the user's files of an experiment, by its path in the group that is laid last."""
    return user_experiment_files(config_path.strip("/").removeprefix(f"{EXPERIMENT_LAST}/").removesuffix(".yaml"))


def _repeat(entry: Any) -> Any:  # noqa: ANN401 - an entry of a list of defaults
    """Return an entry as it stands above the recipes; None for one that is composed below them alone."""
    if not isinstance(entry, str):
        return entry if any(str(key).startswith("override ") for key in entry) else None
    name = entry.removeprefix("/experiment/")
    return entry if entry == "_self_" else f"/{EXPERIMENT_LAST}/{name}" if _files(name) else None


def with_user_experiment(words: Sequence[str]) -> list[str]:
    """Add the choice that lays an experiment of the user's over the scale, where words choose such a one."""
    for place, word in reversed([*enumerate(map(Override.parse, words), 1)]):
        if word.key == "experiment" and word.value:
            is_user = user_experiment_files(word.value)
            added = [f"{EXPERIMENT_LAST}={word.value}"] if is_user else []
            return [*words[:place], *added, *words[place:]]  # beside it: argparse wants overrides side by side
    return [*words]


def use_user_config() -> None:
    """Let the user's files win wherever Hydra composes in this process."""
    for plugin in (UserConfig, UserExperiments):
        Plugins.instance().register(plugin)
