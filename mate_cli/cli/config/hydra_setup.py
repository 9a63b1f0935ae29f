"""Set up Hydra's compose API and its search path, which starts with the user's folder."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
from omegaconf import DictConfig

from mate_cli.cli.config_dir import config_dir, user_config_dir
from mate_cli.cli.overrides import Override


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
    """Initialize Hydra's compose API inside the context.

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
    """Compose the configuration of a command, to find its valid keys.

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
    """Parse overrides, which may have several values, by Hydra's override grammar.

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
