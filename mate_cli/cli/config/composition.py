"""Configurations of `mate train` that Hydra composes: once of their choices, to which values are then applied."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override as HydraOverride
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from mate_cli.cli.config.hydra_errors import open_hydra, several_values
from mate_cli.cli.config.override import Override, texts
from mate_cli.cli.config.user_config import with_user_experiment
from mate_cli.cli.config.validate import plain_problems, refuse, resolve_values
from mate_cli.errors import ConfigError
from mate_cli.runs.configuration import Node, RunConfig
from mate_cli.runs.identity import Names

COMMAND, RANDOM = "train", "random"


@dataclass(frozen=True)
class Composition:
    """A configuration, the choices of groups that it is made of, and the overrides.

    Args:
        base: as its choices alone make it.
        config: with values applied; interpolations stand.
    """

    base: DictConfig
    config: DictConfig
    choices: Mapping[str, str | None]
    overrides: list[str]

    @property
    def names(self) -> Names:
        """The choices by which a run is called; weights that begin random are called so, whatever file was chosen."""
        is_random = OmegaConf.select(self.config, "init.kind", throw_on_missing=False) == RANDOM
        return Names.of({**self.choices, **({"init": RANDOM} if is_random else {})})

    def with_values(self, values: Sequence[Override]) -> Composition:
        """Apply overrides of values, in their order, as Hydra does.

        Raises:
            ConfigError: one of them has several values.
            HydraException: one cannot be read, or its key does not exist.
        """
        if not values:
            return self
        parsed = OverridesParser.create().parse_overrides(texts(values))
        for override in parsed:
            if override.is_sweep_override():
                raise several_values(str(override.input_line))
        config = copy.deepcopy(self.config)
        for override in parsed:
            _apply(override, config)
        return replace(self, config=config, overrides=[*self.overrides, *texts(values)])

    def as_base(self) -> Composition:
        """Take the values that were applied so far for part of the choices."""
        return replace(self, base=self.config)

    def to_run_config(self) -> RunConfig:
        """Return the typed configuration.

        Raises:
            ConfigError: one line per problem, naming key, value and remedy.
        """
        values = resolve_values(self.config)
        refuse(_parts_without_class(values))
        refuse(plain_problems(values, COMMAND))
        return RunConfig.model_validate({key: values[key] for key in RunConfig.model_fields if key in values})


def _apply(override: HydraOverride, config: DictConfig) -> None:
    """Apply an override of a value as Hydra does, which would read all files again.

    Raises:
        ConfigCompositionException: its key does not exist, or does although it is to be added.
    """
    key, value = override.key_or_group, override.value()
    if override.package is not None:
        raise ConfigCompositionException(f"config group '{key}' does not exist")
    section, _, name = key.rpartition(".")
    try:
        items = OmegaConf.select(config, section, throw_on_missing=False) if section else None
        if isinstance(items, ListConfig) and (override.is_delete() or name not in map(str, range(len(items)))):
            raise ConfigError("lists are replaced as a whole", where=key, remedy=f"Type '{section}=[...]'")
        current = OmegaConf.select(config, key, throw_on_missing=False)
        if override.is_delete():
            if current is None:
                raise ConfigCompositionException(f"Could not delete from config. '{key}'")
            if value not in (None, current):
                raise ConfigCompositionException(f"~{key}={value}: its value is {current}")
            with open_dict(config):
                del (OmegaConf.select(config, section) if section else config)[name]
        elif override.is_add() and not (current is None or isinstance(value, (dict, list))):
            raise ConfigCompositionException(f"An item is already at '{key}'")
        else:
            is_new = override.is_add() or override.is_force_add()
            OmegaConf.update(config, key, value, merge=True, force_add=is_new)
    except (ConfigAttributeError, ConfigKeyError) as error:
        raise ConfigCompositionException(f"Could not override '{key}'") from error
    except OmegaConfBaseException as error:
        raise ConfigCompositionException(f"Error merging override {override.input_line}") from error


def _parts_without_class(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of a run that nothing can be built of, as their choice was taken away."""
    for name, field_info in RunConfig.model_fields.items():
        part = values.get(name)
        if field_info.annotation == Node and not (isinstance(part, dict) and "_target_" in part):
            yield str(ConfigError("has no _target_", where=name, remedy=f"Choose a file of conf/{name}: {name}=NAME"))


def has_key(config: DictConfig, key: str) -> bool:
    """Say whether a configuration has such a key or section, set or not."""
    node: Any = config
    for part in key.split(".") if key else ():
        if not isinstance(node, DictConfig) or node._is_none() or node._is_missing() or part not in node:
            return False
        node = node._get_node(part)
    return True


@dataclass(frozen=True)
class Composer:
    """Composes configurations of `mate train`; what it has composed it keeps, for Hydra reads all files anew."""

    settings: tuple[str, ...]
    known: dict[tuple[str, ...], Composition] = field(default_factory=dict)

    def compose(self, choices: Sequence[Override]) -> Composition:
        """Let Hydra compose a configuration of choices of groups."""
        words = tuple(texts(choices))
        if words not in self.known:
            config = compose(COMMAND, [*self.settings, *with_user_experiment(words)], return_hydra_config=True)
            chosen = dict(config.hydra.runtime.choices)
            with open_dict(config):
                del config["hydra"]
            self.known[words] = Composition(config, config, chosen, list(words))
        return self.known[words]


_open: dict[tuple[str, ...], Composer] = {}


@contextmanager
def composer(settings: Sequence[str] = ()) -> Iterator[Composer]:
    """Let Hydra compose outside its own main function, also during a sweep; within another one it is that one."""
    key = tuple(settings)
    if key in _open:
        yield _open[key]
        return
    try:
        with open_hydra():
            yield _open.setdefault(key, Composer(key))
    finally:
        _open.pop(key, None)
