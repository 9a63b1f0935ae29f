"""Configurations of `mate train` that Hydra composes outside its own main function: one for each stage."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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
    """Composes configurations of `mate train`; those that it has composed it knows, for Hydra reads all files anew."""

    settings: tuple[str, ...]
    known: dict[tuple[str, ...], Composed] = field(default_factory=dict)

    def compose(self, words: Sequence[str], name: str = COMMAND) -> Composed:
        """Let Hydra compose a configuration of overrides: of `mate train`, or what an experiment of `STAGES` says."""
        asked = (name, *words)
        if asked not in self.known:
            config = compose(name, [*self.settings, *words], return_hydra_config=True)
            choices = dict(config.hydra.runtime.choices)
            with open_dict(config):
                del config["hydra"]
            self.known[asked] = Composed(config, choices, list(words))
        return self.known[asked]


_open: dict[tuple[object, ...], Composer] = {}


@contextmanager
def composer(settings: Sequence[str], folder: Path | None) -> Iterator[Composer]:
    """Let Hydra compose outside its own main function, also during a sweep; the user's folder is `./conf` if None.

    Within another one of the same settings and folder it is that one.

    Raises:
        ConfigError: there is no such folder.
    """
    if folder and not folder.is_dir():
        raise ConfigError("no such folder", where=f"--config-dir {folder}")
    key, busy = (*settings, folder), GlobalHydra.instance().hydra
    if key in _open:
        yield _open[key]
        return
    try:
        with hydra_here(folder) as path:
            yield _open.setdefault(key, Composer((*path, *settings)))
    finally:
        _open.pop(key, None)
        GlobalHydra.instance().hydra = busy
