"""Choices and values of an experiment or a scale, read from its files without Hydra."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf

from mate_cli.cli.config.composition import COMMAND, Composer, Composition
from mate_cli.cli.config.override import Override
from mate_cli.cli.config_dir import (
    extended_choice,
    find_config,
    group_choices,
    override_choices,
    read_config,
    read_extended,
    user_config_dir,
)
from mate_cli.runs.identity import flat_keys, is_ignored
from mate_cli.runs.user_code import CONF, hash_file


def last_value(typed: Iterable[Override], key: str) -> str | None:
    """Return the value that is typed last of a key; None where it is not typed, or null."""
    values = [word.value for word in typed if word.key == key]
    return values[-1] if values and values[-1] not in ("", "null") else None


def experiment_choices(experiment: str | None, more: Iterable[Override] = ()) -> dict[str, str]:
    """Return the choice of each group of `mate train`, with those of an experiment and of further overrides."""
    found = {group: name for content in read_extended(COMMAND) for group, name in group_choices(content)}
    found |= override_choices("experiment", experiment) if experiment else {}
    return {**found, **{word.group: str(word.value) for word in more if word.group}}


def hash_own_files(chosen: Mapping[str, str | None]) -> dict[str, str]:
    """Hash the user's own files of choices that matter, and what they extend; by `conf/GROUP/NAME.yaml`."""
    own = user_config_dir()
    waiting = [f"{group}/{name}" for group, name in chosen.items() if own and name and _can_matter(group)]
    found: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        if own and (file := own / f"{name}.yaml").is_file() and f"{CONF}/{name}.yaml" not in found:
            found[f"{CONF}/{name}.yaml"] = hash_file(file)
            extended = [entry for entry in read_config(file).get("defaults") or [] if isinstance(entry, str)]
            group = name.rpartition("/")[0]
            waiting += [entry.removeprefix("/") if "/" in entry else f"{group}/{entry}" for entry in extended]
    return dict(sorted(found.items()))


def _can_matter(group: str) -> bool:
    return group == "experiment" or not (group in ("sweep", "debug") or is_ignored(group.replace("/", ".")))


def fitting_values(own: Sequence[Override], base: Composition, typed: Iterable[Override]) -> list[Override]:
    """Return a stage's own values, without those that typed choices set: `debug`, or another scale than its own."""
    values = [word for word in own if not word.group]
    chosen = {word.group: str(word.value) for word in typed if word.group}
    scale = last_value(own, "scale")
    before, after = (_scale_values(str(one), base) for one in (scale, chosen.get("scale", scale)))
    debug = flat_keys(read_config(find_config(f"debug/{chosen.get('debug')}")))
    return [word for word in values if before.get(word.key) == after.get(word.key) and word.key not in debug]


def tell_recipe(hydra: Composer, typed: Sequence[Override], whole: Composition) -> None:
    """Warn where the network that is typed sets other keys at this scale than its own, such as the length of inputs."""
    model, scale = last_value(typed, "model"), whole.choices.get("scale")
    files = extended_choice("recipe/model", f"{scale}/{model}") if model else ()
    keys = {key for content in files for key in flat_keys(content) if not key.startswith(("model", "init", "defaults"))}
    if keys := keys - {word.key for word in typed}:
        others = hydra.compose([word for word in typed if word.group and word.key != "model"])
        for key in sorted(keys):
            before, now = (OmegaConf.select(one.config, key) for one in (others, whole))
            if before != now:
                warnings.warn(f"model={model} takes {key}={now} at scale={scale}, not {before}", stacklevel=2)


def _scale_values(scale: str, base: Composition) -> dict[str, Any]:
    """Return the values of a scale for the task, data and network of a configuration, by dotted key."""
    values = flat_keys(read_config(find_config(f"scale/{scale}")))
    for group in ("task", "data", "model"):
        for content in extended_choice(f"recipe/{group}", f"{scale}/{base.choices.get(group)}"):
            values |= flat_keys(content)
    return values
