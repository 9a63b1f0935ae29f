"""Settings that tell a run from others of its experiment, by values: equal ones are equal however they are typed."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from mate_cli.cli.config.composition import Composition, has_key
from mate_cli.cli.config.override import Override
from mate_cli.runs.identity import REPEATED, differences, find_value, flat_keys, is_ignored, value_text


@dataclass(frozen=True)
class StageSettings:
    """A stage beside what it is without the values that were typed.

    Args:
        name: of the stage; empty for a plain run.
        composition: with them, and as its choices alone make it.
        own: the choice of each group that its experiment makes.
        typed: overrides that it has taken.
        keeps: groups of which it keeps its own choice.
    """

    name: str
    composition: Composition
    own: Mapping[str, Any]
    typed: Sequence[Override]
    keeps: Sequence[str] = ()

    def find(self) -> dict[str, str]:
        """Return the typed choices that are not its experiment's, and the values that are not those of its choices."""
        found = {}
        for word in self.typed:
            if word.group and not is_ignored(word.group):
                choice = self.composition.choices.get(word.group)
                if str(choice) != str(self.own.get(word.group)):
                    found[word.group] = "null" if choice is None else choice
            elif not word.group:
                config, base = _leaves(self.composition.config, word.key), self._base_leaves(word.key)
                found |= {key: value_text(value) for key, _, value in differences(base, config, REPEATED)}
        return found

    def _base_leaves(self, key: str) -> dict[str, Any]:
        """Return the values at a key and below without overrides of it; what they refer to is as it was typed."""
        raw = find_value(OmegaConf.to_container(self.composition.base), key)
        if "${" not in str(raw):
            return _leaves(self.composition.base, key)
        trial = copy.deepcopy(self.composition.config)
        OmegaConf.update(trial, key, raw, merge=False)
        return _leaves(trial, key)

    def value(self, key: str) -> str | None:
        """Return a choice or a value as text; None without the key, and for a choice that it keeps."""
        if key in self.keeps:
            return None
        if key in self.composition.choices:
            return str(self.composition.choices[key])
        config = self.composition.config
        return value_text(_leaves(config, key).get(key)) if has_key(config, key) else None


def join_settings(stages: Sequence[StageSettings]) -> list[str]:
    """Return the settings of all stages as overrides: of one key for all that have it, where they agree."""
    found: list[str] = []
    for stage in stages:
        for key, value in stage.find().items():
            shared = {other.value(key) for other in stages} <= {None, value}
            found.append(f"{key}={value}" if shared or not stage.name else f"stages.{stage.name}.{key}={value}")
    return list(dict.fromkeys(found))


def changed_options(before: Composition, whole: Composition) -> list[str]:
    """Return the options of the whole and of its stages that were typed and differ from those of the experiment."""
    parts = ("system", "stages")
    old, new = (
        flat_keys({part: OmegaConf.to_container(OmegaConf.create({part: config[part]}))[part] for part in parts})  # type: ignore[call-overload,index]
        for config in (before.config, whole.config)
    )
    return [f"{key}={value_text(value)}" for key, _, value in differences(old, new, ()) if key in new]


def _leaves(config: DictConfig, key: str) -> dict[str, Any]:
    """Return the values at a key and below, by dotted key."""
    node = OmegaConf.select(config, key, throw_on_missing=False)
    if isinstance(node, (DictConfig, ListConfig)):
        node = OmegaConf.to_container(node, resolve=True)
    return flat_keys({key: node})
