"""Set up Hydra's compose API, its search path and the experiments of the user.

The search path starts with the user's folder. Hydra would apply the file of a user-defined experiment before the
`scale` and its recipes, so the file is converted to overrides, which take precedence over both.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override as HydraOverride
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf

from mate_cli.cli.config_dir import (
    config_dir,
    find_config,
    group_choices,
    list_defaults,
    read_config,
    user_config_dir,
    user_experiment_files,
)
from mate_cli.cli.overrides import EXTENSIBLE_SECTIONS, RUN_LEVEL_KEYS, Override, get_override_value, to_strings
from mate_cli.quoting import write_value
from mate_cli.runs.identity import flat_keys, value_text


class UserConfig(SearchPathPlugin):
    """Hydra plugin that adds the user's configuration folder to the search path.

    The folder is searched before mate's `conf/`.
    """

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Prepend the user's configuration folder to the search path, if it exists."""
        if folder := user_config_dir():
            search_path.prepend("user", f"file://{folder}", anchor="main")


def use_user_config() -> None:
    """Add the user's configuration files to Hydra's search path in this process."""
    Plugins.instance().register(UserConfig)


@contextmanager
def open_hydra() -> Iterator[None]:
    """Initialize Hydra's compose API with mate's and the user's files inside the context.

    The context can be entered inside `hydra.main`, whose global state is restored at exit.
    """
    use_user_config()
    hydra, settings = GlobalHydra.instance().hydra, HydraConfig.instance().cfg
    GlobalHydra.instance().clear()
    # Clear the settings of an earlier command in this process.
    HydraConfig.instance().cfg = None
    try:
        with initialize_config_dir(str(config_dir()), version_base="1.3"):
            yield
    finally:
        GlobalHydra.instance().hydra, HydraConfig.instance().cfg = hydra, settings


def known_keys(config_name: str, overrides: Sequence[str] = ()) -> DictConfig:
    """Compose the configuration of a command, which contains all of its valid keys.

    Only config group overrides are applied. If they are invalid, the default configuration is returned.

    Args:
        config_name: command, which is also the name of its primary configuration.
        overrides: overrides from the command line.
    """
    parsed = map(Override.parse, overrides)
    options = [str(override) for override in parsed if override.group not in ("", "sweep") and not override.sign]
    with open_hydra():
        with suppress(HydraException):
            return compose(config_name, options)
        return compose(config_name)


def parse_overrides(overrides: Sequence[str]) -> list[HydraOverride]:
    """Parse command-line overrides, which may have several values such as `seed=1,2`.

    A value `glob(...)` can match config files only if Hydra is initialized.
    """
    loader = GlobalHydra.instance().config_loader() if GlobalHydra.instance().is_initialized() else None
    return OverridesParser.create(loader).parse_overrides(list(overrides))


def has_key(node: Any, key: str) -> bool:  # noqa: ANN401 - a configuration, or a value of one
    """Return whether a configuration contains a dotted key or section.

    The value may be null or missing.
    """
    for part in key.split(".") if key else ():
        if not isinstance(node, DictConfig) or node._is_none() or node._is_missing() or part not in node:
            return False
        node = node._get_node(part)
    return True


def read_experiment_overrides(file: Path) -> Iterator[Override]:
    """Yield the contents of an experiment file as overrides.

    Config group options come first, then values. Keys of `RUN_LEVEL_KEYS` are excluded.
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
    """Remove the overrides of keys that the selected `debug` file sets.

    The `debug` file thereby takes precedence.

    Args:
        overrides: overrides to filter.
        typed: overrides that may select a `debug` file.
    """
    keys = flat_keys(read_config(find_config(f"debug/{get_override_value(typed, 'debug')}")))
    return [override for override in overrides if override.key not in keys]


def with_user_experiment(arguments: Sequence[str], command: str = "train") -> list[str]:
    """Put the overrides of the selected user-defined experiment before all arguments.

    Hydra then applies them first. For an experiment of the package, the arguments are returned unchanged.

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
