"""The words that a stage takes, and the settings that tell it from others of its experiment, by values."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig, ListConfig, OmegaConf

from mate_cli.cli.config.composition import COMMAND, Composer, Composition, has_key
from mate_cli.cli.config.file_values import (
    SharedWords,
    debug_keys,
    experiment_choices,
    fitting_values,
    hash_own_files,
)
from mate_cli.cli.config.hydra_errors import explain
from mate_cli.cli.config.override import Override, texts
from mate_cli.cli.config.schema import StageOptions
from mate_cli.cli.config_dir import choices
from mate_cli.errors import ConfigError
from mate_cli.pipelines.run_spec import MACHINE, After, Stage, resolve_finished_run
from mate_cli.runs.configuration import Node, RunConfig, load_config
from mate_cli.runs.identity import REPEATED, Names, differences, find_value, flat_keys, is_ignored, value_text


def stage_key(word: Override) -> tuple[str, str] | None:
    """Return the stage and the key of an override for one stage alone, as in `stages.NAME.key=value`."""
    parts = word.key.split(".", 2)
    return (parts[1], parts[2]) if parts[0] == "stages" and len(parts) == 3 else None


def is_option(word: Override) -> bool:
    """Say whether it is an option of a stage, such as `stages.NAME.run`, and no key of its configuration."""
    stage = stage_key(word)
    return stage is not None and stage[1] in StageOptions.model_fields


@dataclass(frozen=True)
class StageWords:
    """A stage, or a plain run, whose name is empty: its configuration, and the overrides that it has taken.

    Args:
        composed: with all that it takes.
        own_overrides: what was typed for it alone.
        fits: of what holds for every stage that has the key.
        beside: of these, those of the user's experiment.
    """

    name: str
    options: StageOptions
    composed: Composition
    own_overrides: tuple[Override, ...]
    fits: tuple[Override, ...]
    beside: tuple[Override, ...]

    @property
    def shared_overrides(self) -> tuple[Override, ...]:
        """Overrides for all stages that shape its training: none where a finished run stands in."""
        return () if self.options.run else self.fits

    def find_settings(self) -> dict[str, str]:
        """Return the typed choices that are not its experiment's, and the values that are not those of its choices."""
        overrides = [*map(Override.parse, self.options.overrides), *self.beside]
        chosen = experiment_choices(self.options.experiment, overrides)
        settings = {}
        for word in (*(word for word in self.fits if word not in self.beside), *self.own_overrides):
            if word.group and not is_ignored(word.group):
                choice = self.composed.choices.get(word.group)
                if str(choice) != str(chosen.get(word.group)):
                    settings[word.group] = "null" if choice is None else choice
            elif not word.group:
                values, base = _leaves(self.composed.config, word.key), self._base_leaves(word.key)
                settings |= {key: value_text(value) for key, _, value in differences(base, values, REPEATED)}
        return settings

    def _base_leaves(self, key: str) -> dict[str, Any]:
        """Return the values at a key and below without overrides of it; what they refer to is as it was typed."""
        raw = find_value(OmegaConf.to_container(self.composed.base), key)
        if "${" not in str(raw):
            return _leaves(self.composed.base, key)
        trial = copy.deepcopy(self.composed.config)
        OmegaConf.update(trial, key, raw, merge=False)
        return _leaves(trial, key)

    def value(self, key: str) -> str | None:
        """Return a choice or a value as text; None without the key, and for a choice that it keeps."""
        if key in self.options.keeps:
            return None
        if key in self.composed.choices:
            return str(self.composed.choices[key])
        config = self.composed.config
        return value_text(_leaves(config, key).get(key)) if has_key(config, key) else None

    @classmethod
    def of(
        cls,
        hydra: Composer,
        name: str,
        options: StageOptions,
        typed: Sequence[Override],
        words: SharedWords,
    ) -> StageWords:
        """Compose it: choices first, then the values whose keys it has, what is typed for it alone last.

        Raises:
            ConfigError: it cannot be composed so.
        """
        below = [(word, stage_key(word)) for word in typed if not is_option(word)]
        own_overrides = tuple(replace(word, key=stage[1]) for word, stage in below if stage and stage[0] == name)
        alone = () if options.run else own_overrides
        beside, offered = (
            [word for word in of_all if (word.group or word.key) not in options.keeps]
            for of_all in (words.beside, words.typed)
        )
        first = [Override.parse(f"experiment={options.experiment}"), *map(Override.parse, options.overrides)]
        is_users = name in words.user_stages
        choices = [*beside, *first] if is_users else [*first, *beside]
        try:
            base = hydra.compose([word for word in (*choices, *offered, *alone) if word.group])
            shared = [word for word in beside if not word.group and _takes(base, word)]
            values = (
                [*shared, *first] if is_users else [*fitting_values(first, base, [*beside, *offered, *alone]), *shared]
            )
            debug = debug_keys([*offered, *alone])
            base = base.with_values([word for word in values if not word.group and word.key not in debug]).as_base()
            fits = [word for word in offered if word.group or _takes(base, word)]
            composed = base.with_values([word for word in (*fits, *alone) if not word.group])
        except ConfigCompositionException as error:
            raise _stage_error(error, name, texts([*first, *beside, *offered, *alone])) from error
        shared += [word for word in beside if word.group]
        return cls(name, options, composed, own_overrides, (*shared, *fits), tuple(shared))

    def stage(self, system: Node | None, trust: Sequence[str]) -> Stage:
        """Return the stage, complete but for the weights of another.

        Raises:
            ConfigError: a value is wrong, or would change nothing.
            RunError: the run that is to stand in for it cannot.
            TrustError: it is made of what is neither ours nor trusted.
        """
        where = f"stages.{self.name}"
        if self.composed.config.stages:
            raise ConfigError(
                "has stages itself", where=f"{where}.experiment", remedy="Use an experiment without stages"
            )
        after: After = self.options.after or ("predictions" if system else "weights")
        if self.options.run:
            if self.own_overrides:
                raise ConfigError(
                    "a finished run replaces this stage",
                    where=f"{where}.{self.own_overrides[0]}",
                    remedy=f"Leave this out, or {where}.run",
                )
            settings = self._validate()
            outputs = Path(settings.paths.outputs)
            folder, record = resolve_finished_run(
                self.options.run, self.name, self.composed.names.task, outputs, choices("experiment")
            )
            names = Names(**{name: getattr(record, name) for name in Names.__dataclass_fields__})
            config = load_config(folder.path, trust).model_copy(update={key: getattr(settings, key) for key in MACHINE})
            return Stage(self.name, config, names, record.overrides, str(folder.path), after, trust=trust)
        config = self._validate()
        composed, conf = self.composed, hash_own_files(self.composed.choices)
        return Stage(self.name, config, composed.names, composed.overrides, None, after, self.options.shared, conf=conf)

    def refuse_replaced(self, asked: RunConfig, config: RunConfig, first: StageWords) -> None:
        """Refuse what is set of this stage that the weights decide with which it begins.

        Raises:
            ConfigError: naming the key, and where to set it.
        """
        values, done = asked.model_dump(), config.model_dump()
        for word in (*self.own_overrides, *self.shared_overrides, *map(Override.parse, self.options.overrides)):
            chosen = word.group == "init" and "kind" in config.init
            if word in first.shared_overrides or not (
                chosen or find_value(values, word.key) != find_value(done, word.key)
            ):
                continue
            where = str(word) if word in self.shared_overrides else f"stages.{self.name}.{word}"
            remedy = "Leave it out" if first.options.run else f"Write stages.{first.name}.{word}"
            raise ConfigError(f"{self.name} starts from the weights of {first.name}", where=where, remedy=remedy)

    def _validate(self) -> RunConfig:
        try:
            return self.composed.to_run_config()
        except ConfigError as error:
            raise ConfigError(str(error), where=f"stages.{self.name}") from error


def _stage_error(error: ConfigCompositionException, name: str, words: Sequence[str]) -> ConfigError:
    """Return Hydra's error as one that names the stage."""
    explained = explain(error, COMMAND, words)
    where = ".".join(filter(None, [f"stages.{name}", explained.where]))
    remedy = explained.remedy
    if remedy and explained.problem == "unknown key":
        remedy = remedy.replace("Did you mean ", f"Did you mean stages.{name}.")
    return ConfigError(explained.problem, where=where, remedy=remedy)


def _takes(composed: Composition, word: Override) -> bool:
    """Say whether an override for all stages is of one: it has the key, or the section in which to add it."""
    return has_key(composed.config, word.key.rpartition(".")[0] if "+" in word.sign else word.key)


def join_settings(stages: Sequence[StageWords]) -> list[str]:
    """Return the settings of all stages as overrides: of one key for all that have it, where they agree."""
    settings: list[str] = []
    for stage in stages:
        for key, value in stage.find_settings().items():
            shared = {other.value(key) for other in stages} <= {None, value}
            settings.append(f"{key}={value}" if shared or not stage.name else f"stages.{stage.name}.{key}={value}")
    return list(dict.fromkeys(settings))


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
