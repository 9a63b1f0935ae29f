"""Configurations of `mate train` that Hydra composes outside its own main function: one for each stage."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, open_dict

from mate_cli.cli.config.mistakes import hydra_here
from mate_cli.cli.config.validate import plain_problems, resolved
from mate_cli.errors import ConfigError
from mate_cli.runs.configuration import RunConfig
from mate_cli.runs.names import Names

COMMAND = "train"
STAGES = "stages"
"""What an experiment of several stages may say itself: which they are, and what joins them."""
ConfigStore.instance().store(
    STAGES, {"defaults": ["_self_", {"system": None}, {"experiment": None}], "system": None, "stages": None}
)


@dataclass(frozen=True)
class Composed:
    """A configuration and the choices it was made of.

    Args:
        config: with interpolations as they stand.
    """

    config: DictConfig
    choices: Mapping[str, str | None]
    words: list[str]

    @property
    def names(self) -> Names:
        """The choices by which a run is called."""
        return Names.of(self.choices)

    def checked(self) -> RunConfig:
        """The typed configuration.

        Raises:
            ConfigError: one line per problem, naming key, value and remedy.
        """
        values = resolved(self.config)
        if problems := list(plain_problems(values, COMMAND)):
            raise ConfigError("\n       ".join(problems))
        return RunConfig.model_validate({key: values[key] for key in RunConfig.model_fields})


def has_key(config: DictConfig, key: str) -> bool:
    """Whether a configuration has such a key or section, set or not."""
    node: Any = config
    for part in key.split(".") if key else ():
        if not isinstance(node, DictConfig) or node._is_none() or node._is_missing() or part not in node:
            return False
        node = node._get_node(part)
    return True


@dataclass(frozen=True)
class Composer:
    """Composes configurations of `mate train`."""

    settings: tuple[str, ...]

    def compose(self, words: Sequence[str], name: str = COMMAND) -> Composed:
        """Let Hydra compose a configuration of overrides: of `mate train`, or what an experiment of `STAGES` says."""
        config = compose(name, [*self.settings, *words], return_hydra_config=True)
        choices = dict(config.hydra.runtime.choices)
        with open_dict(config):
            del config["hydra"]
        return Composed(config, choices, list(words))


@contextmanager
def composer(settings: Sequence[str], folder: Path | None) -> Iterator[Composer]:
    """Let Hydra compose outside its own main function, also during a sweep; the user's folder is `./conf` if None.

    Raises:
        ConfigError: there is no such folder.
    """
    if folder and not folder.is_dir():
        raise ConfigError("no such folder", where=f"--config-dir {folder}")
    busy = GlobalHydra.instance().hydra
    try:
        with hydra_here(folder) as path:
            yield Composer((*path, *settings))
    finally:
        GlobalHydra.instance().hydra = busy
