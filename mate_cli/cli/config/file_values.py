"""Choices and values of an experiment or a scale, read from its files without Hydra."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from mate_cli.cli.config.composition import COMMAND, Composer, Composition
from mate_cli.cli.config.hydra_errors import OPEN
from mate_cli.cli.config.override import Override
from mate_cli.cli.config_dir import (
    extended_choice,
    extended_files,
    find_config,
    group_choices,
    override_choices,
    read_config,
    read_extended,
    user_config_dir,
    user_experiment_files,
)
from mate_cli.errors import ConfigError
from mate_cli.quoting import write_value
from mate_cli.runs.identity import flat_keys, is_ignored
from mate_cli.runs.user_code import CONF, hash_file

NOT_SHARED = ("defaults", "stages", "system", "name", "resume", "trust", "sweep", "hydra")
"""Keys of an experiment that are no stage's."""


def last_value(typed: Iterable[Override], key: str) -> str | None:
    """Return the value that is typed last of a key; None where it is not typed, or null."""
    values = [word.value for word in typed if word.key == key]
    return values[-1] if values and values[-1] not in ("", "null") else None


def experiment_choices(experiment: str | None, more: Iterable[Override] = ()) -> dict[str, str]:
    """Return the choice of each group of `mate train`, with those of an experiment and of further overrides."""
    groups = {group: name for content in read_extended(COMMAND) for group, name in group_choices(content)}
    groups |= override_choices("experiment", experiment) if experiment else {}
    return {**groups, **{word.group: str(word.value) for word in more if word.group}}


def hash_own_files(chosen: Mapping[str, str | None]) -> dict[str, str]:
    """Hash the user's own files of choices that matter, and what they extend; by `conf/GROUP/NAME.yaml`."""
    user_folder = user_config_dir()
    waiting = [f"{group}/{name}" for group, name in chosen.items() if user_folder and name and _can_matter(group)]
    hashes: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        if user_folder and (file := user_folder / f"{name}.yaml").is_file() and f"{CONF}/{name}.yaml" not in hashes:
            hashes[f"{CONF}/{name}.yaml"] = hash_file(file)
            extended = [entry for entry in read_config(file).get("defaults") or [] if isinstance(entry, str)]
            group = name.rpartition("/")[0]
            waiting += [entry.removeprefix("/") if "/" in entry else f"{group}/{entry}" for entry in extended]
    return dict(sorted(hashes.items()))


def _can_matter(group: str) -> bool:
    return group == "experiment" or not (group in ("sweep", "debug") or is_ignored(group.replace("/", ".")))


@dataclass(frozen=True)
class SharedWords:
    """Overrides that hold for every stage which has the key.

    Args:
        beside: those of the user's experiment, beside its stages.
        typed: those that were typed, which win.
        user_stages: stages whose overrides stand in the user's experiment.
    """

    beside: Sequence[Override]
    typed: Sequence[Override]
    user_stages: Collection[str]

    @classmethod
    def of(cls, typed: Sequence[Override], experiment: str | None) -> SharedWords:
        """Read those of an experiment.

        Raises:
            ConfigError: a shipped experiment that it extends sets something beside stages, for which it was not made.
        """
        nodes = [read_config(file).get("stages") or {} for file in user_experiment_files(str(experiment))]
        stages = {name: node for stages in nodes for name, node in stages.items() if isinstance(node, dict)}
        users = [name for name, node in stages.items() if "overrides" in node]
        return cls(_values_beside_stages(experiment) if experiment else [], typed, users)


def _values_beside_stages(experiment: str) -> list[Override]:
    """Return what an experiment of the user's sets beside its stages; refuse it of a shipped one."""
    files = user_experiment_files(experiment)
    for file in extended_files("experiment", experiment):
        if file not in files and (beside := [*_beside_stages(file)]):
            problem = f"{beside[0].key} is set outside the stages, so no stage uses it"
            remedy = "Move it to stages.NAME.overrides, or type it, which sets it in every stage that has the key"
            raise ConfigError(problem, where=f"experiment={experiment}", remedy=remedy)
    return [word for file in files for word in _beside_stages(file)]


def _beside_stages(file: Path) -> Iterator[Override]:
    """Yield the choices and values of an experiment's file that are no part of its stages, as overrides."""
    content: Any = OmegaConf.to_container(OmegaConf.load(file))
    for group, name in group_choices(content):
        group = group.removeprefix("override ").removeprefix("/")
        if group != "system":
            yield Override("", group, str(name))
    for key, value in flat_keys(content).items():
        if key.partition(".")[0] not in NOT_SHARED:
            yield Override("++" if key.startswith(OPEN) else "", key, write_value(value))


def fitting_values(overrides: Sequence[Override], base: Composition, typed: Iterable[Override]) -> list[Override]:
    """Return a stage's own values, without those that another scale sets which was typed."""
    values = [word for word in overrides if not word.group]
    scale = last_value(overrides, "scale")
    before, after = (_scale_values(str(choice), base) for choice in (scale, last_value(typed, "scale") or scale))
    return [word for word in values if before.get(word.key) == after.get(word.key)]


def debug_keys(typed: Iterable[Override]) -> set[str]:
    """Return the keys that a typed choice of `debug` sets."""
    return {*flat_keys(read_config(find_config(f"debug/{last_value(typed, 'debug')}")))}


def tell_recipe(hydra: Composer, typed: Sequence[Override], whole: Composition) -> None:
    """Warn where the network that is typed sets other keys at this scale than its own, such as the length of inputs."""
    model, scale = last_value(typed, "model"), whole.choices.get("scale")
    files = extended_choice("recipe/model", f"{scale}/{model}") if model else ()
    keys = {key for content in files for key in flat_keys(content) if not key.startswith(("model", "init", "defaults"))}
    if keys := keys - {word.key for word in typed}:
        others = hydra.compose([word for word in typed if word.group and word.key != "model"])
        for key in sorted(keys):
            before, now = (OmegaConf.select(composition.config, key) for composition in (others, whole))
            if before != now:
                warnings.warn(f"model={model} takes {key}={now} at scale={scale}, not {before}", stacklevel=2)


def _scale_values(scale: str, base: Composition) -> dict[str, Any]:
    """Return the values of a scale for the task, data and network of a configuration, by dotted key."""
    values = flat_keys(read_config(find_config(f"scale/{scale}")))
    for group in ("task", "data", "model"):
        for content in extended_choice(f"recipe/{group}", f"{scale}/{base.choices.get(group)}"):
            values |= flat_keys(content)
    return values
