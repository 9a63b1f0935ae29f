"""Compose the configuration of a run or stage, and find the settings that identify it.

Hydra composes each selection of config group options once, as this is slow. Value overrides are then applied to a
copy of the result.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

from hydra import compose
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override as HydraOverride
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from mate_cli.cli.config.hydra_errors import explain, several_values
from mate_cli.cli.config.hydra_setup import (
    drop_debug_overridden,
    has_key,
    open_hydra,
    read_experiment_overrides,
    with_user_experiment,
)
from mate_cli.cli.config.schema import StageOptions
from mate_cli.cli.config.validate import check_values, refuse, resolve_values
from mate_cli.cli.config_dir import (
    extended_files,
    find_config,
    list_defaults,
    load_extended_option,
    override_choices,
    read_config,
    user_config_dir,
    user_experiment_files,
)
from mate_cli.cli.overrides import RUN_LEVEL_KEYS, Override, get_override_value, to_strings
from mate_cli.errors import ConfigError
from mate_cli.pipelines.run_spec import MACHINE, Stage, resolve_finished_run
from mate_cli.quoting import format_command
from mate_cli.runs.configuration import Node, RunConfig, load_config
from mate_cli.runs.identity import (
    CONF,
    SEED_REPEAT_KEYS,
    Names,
    differences,
    find_value,
    flat_keys,
    hash_file,
    is_ignored,
    value_text,
)

COMMAND, RANDOM = "train", "random"


@dataclass(frozen=True)
class Composition:
    """A composed Hydra configuration, with the overrides that produced it.

    Args:
        base: configuration composed from files only, without command-line values.
        config: configuration with all overrides applied. Interpolations are not resolved.
        choices: selected option of each config group.
        overrides: all overrides, in order.
        name: name of the stage, "" for a run without stages.
        options: options of the stage.
        stage_overrides: command-line overrides for this stage only (`stages.NAME.*`), without the prefix.
        common_overrides: command-line overrides without a stage prefix whose key exists in this stage.
        experiment_overrides: overrides outside the stages of the user's experiment whose key exists in this stage.
    """

    base: DictConfig
    config: DictConfig
    choices: Mapping[str, str | None]
    overrides: list[str]
    name: str = ""
    options: StageOptions = field(default_factory=partial(StageOptions, experiment=""))
    stage_overrides: Sequence[Override] = ()
    common_overrides: Sequence[Override] = ()
    experiment_overrides: Sequence[Override] = ()

    @property
    def names(self) -> Names:
        """Names of the selected config group options that identify a run, such as its dataset.

        `init` is `random` if the weights are randomly initialized.
        """
        is_random = OmegaConf.select(self.config, "init.kind", throw_on_missing=False) == RANDOM
        return Names.of({**self.choices, **({"init": RANDOM} if is_random else {})})

    @property
    def unprefixed_overrides(self) -> tuple[Override, ...]:
        """Overrides without the prefix `stages.NAME.` that affect the training of this stage.

        Empty if a finished run replaces the stage, because the stage is not trained.
        """
        return () if self.options.run else (*self.experiment_overrides, *self.common_overrides)

    def with_values(self, overrides: Iterable[Override]) -> Composition:
        """Return a copy of the configuration to which value overrides are applied in order.

        Config group overrides are ignored.

        Raises:
            ConfigError: if an override has several values.
            HydraException: if an override cannot be parsed, or its key does not exist.
        """
        values = to_strings(override for override in overrides if not override.group)
        if not values:
            return self
        config = copy.deepcopy(self.config)
        for override in OverridesParser.create().parse_overrides(values):
            if override.is_sweep_override():
                raise several_values(str(override.input_line))
            _apply(override, config)
        return replace(self, config=config, overrides=[*self.overrides, *values])

    def applies_override(self, override: Override) -> bool:
        """Return whether an override without the prefix `stages.NAME.` applies to this stage.

        An override applies if the stage has its key. An override with `+` applies if the stage has the section to which
        the key is added. Config group overrides always apply.
        """
        parent = override.key.rpartition(".")[0]
        return bool(override.group) or has_key(self.config, parent if "+" in override.sign else override.key)

    def find_settings(self) -> dict[str, str]:
        """Return the settings of the stage that differ from the defaults, as text by key.

        A config group option is compared with the option that the experiment selects, a value with the value in the
        files of the selected options.
        """
        file_overrides = (*map(Override.parse, self.options.overrides), *self.experiment_overrides)
        default_options = dict(list_defaults(COMMAND)) | override_choices("experiment", self.options.experiment)
        default_options |= {override.group: override.value for override in file_overrides if override.group}
        selected_groups = [o.group for o in (*self.common_overrides, *self.stage_overrides) if o.group]
        settings = {
            group: value_text(self.choices.get(group))
            for group in selected_groups
            if str(self.choices.get(group)) != str(default_options.get(group)) and not is_ignored(group)
        }
        base, final = _leaves(self.base), _leaves(self.config)
        for key, unset, _ in differences(base, final, SEED_REPEAT_KEYS):
            # The default is an interpolation: resolve it to see the value without the override.
            if "${" in str(unset):
                OmegaConf.update(trial := copy.deepcopy(self.config), key, unset, merge=False)
                unset = OmegaConf.select(trial, key)
            value = value_text(self.values.get(key))
            # The second condition covers a section that was replaced by null.
            if value != value_text(unset) or (key in base) != (key in final):
                settings[key] = value
        return settings

    @cached_property
    def values(self) -> dict[str, Any]:
        """The values of the configuration by dotted key, with interpolations resolved."""
        return _leaves(self.config, resolve=True)

    def value(self, key: str) -> str | None:
        """Return the composed value of a key as text, or the selected option of a config group.

        Return None if the key is missing, or in `options.keeps`.
        """
        if key in self.options.keeps or key not in {**self.choices, **self.values}:
            return None
        return str(self.choices[key]) if key in self.choices else value_text(self.values[key])

    def validate(self) -> RunConfig:
        """Return the configuration as a validated `RunConfig`.

        Raises:
            ConfigError: values are invalid. The message has a line per problem, with key, value and hint.
        """
        try:
            values = resolve_values(self.config)
            for name, field_info in RunConfig.model_fields.items():
                # The `_target_` is missing if an override deleted the config group.
                if field_info.annotation == Node and find_value(values, f"{name}._target_") is None:
                    hint = f"Choose a file of conf/{name}: {name}=NAME"
                    raise ConfigError("has no _target_", where=name, remedy=hint)
            config, problems = check_values(values, COMMAND)
            refuse(problems)
            return cast(RunConfig, config)
        except ConfigError as error:
            raise ConfigError(str(error), where=f"stages.{self.name}" if self.name else None) from error

    def to_stage(self, system: Node | None, trust: Sequence[str]) -> Stage:
        """Validate the composed configuration, and convert it to a stage of a run.

        Initial weights from another stage are not set yet.

        Args:
            system: configuration of the system that combines the stages, None without a system.
            trust: `trust=` values from the command line.

        Raises:
            ConfigError: if a value is invalid, or would have no effect.
            RunError: if the run that should replace the stage is unsuitable.
            TrustError: if the run that should replace the stage uses untrusted classes.
        """
        location, run = f"stages.{self.name}", self.options.run
        if self.config.stages:
            hint = "Use an experiment without stages"
            raise ConfigError("has stages itself", where=f"{location}.experiment", remedy=hint)
        if run and self.stage_overrides:
            problem, hint = "a finished run replaces this stage", f"Leave this out, or {location}.run"
            raise ConfigError(problem, where=f"{location}.{self.stage_overrides[0]}", remedy=hint)
        config, output = self.validate(), self.options.after or ("predictions" if system else "weights")
        source: dict[str, Any] = {"name": self.name, "names": self.names, "overrides": self.overrides, "after": output}
        if not run:
            return Stage.of(config, **source, shared=self.options.shared, conf=hash_user_files(self.choices))
        folder, record = resolve_finished_run(
            run, self.name, self.names.task, Path(config.paths.outputs), train_command
        )
        config = load_config(folder.path, trust).model_copy(update={key: getattr(config, key) for key in MACHINE})
        source |= {"names": Names.read(vars(record)), "overrides": record.overrides}
        return Stage.of(config, **source, run=str(folder.path), trust=trust)


def train_command(experiment: str) -> str:
    """Return the shell command that trains the last stage of an experiment on its own.

    Finished runs of the earlier stages are reused. Return "" if the experiment has no file.
    """
    content = read_config(find_config(f"experiment/{experiment}"))
    if not content:
        return ""
    stages = [*(content.get("stages") or {}).items()][:-1]
    first = {name: options.get("experiment") for name, options in stages if isinstance(options, dict)}
    runs = [f"stages.{name}.run={run}" for name, run in first.items() if run]
    return format_command("mate", "train", f"experiment={experiment}", *runs)


_composed: list[tuple[Sequence[str], dict[tuple[str, ...], Composition]]] = []
"""Stack of the active `init_compose_api` blocks: overrides of Hydra's keys, and cached compositions.

The cache maps config group overrides to their composition.
"""


@contextmanager
def init_compose_api(of_hydra: Sequence[str] = ()) -> Iterator[None]:
    """Initialize Hydra's compose API inside the context, with a cache of compositions.

    Compositions are cached until the outermost block ends, because Hydra rereads every file on each call.

    Args:
        of_hydra: overrides of Hydra's keys, such as `hydra.searchpath`, for all compositions in the block.
    """
    with nullcontext() if _composed else open_hydra():
        _composed.append((of_hydra, _composed[-1][1] if _composed else {}))
        try:
            yield
        finally:
            _composed.pop()


def compose_options(overrides: Iterable[Override]) -> Composition:
    """Compose a configuration from config group overrides only.

    Value overrides are ignored. Must be called inside a `init_compose_api` block, whose cache is used.
    """
    of_hydra, cache = _composed[-1]
    files = [str(override) for override in overrides if override.group]
    arguments = (*of_hydra, *files)
    if arguments not in cache:
        all_overrides = with_user_experiment(arguments)
        config = compose(COMMAND, all_overrides, return_hydra_config=True)
        options = {o.group: (o.value or "").replace(" ", "") for o in map(Override.parse, all_overrides) if o.group}
        # Hydra reports None for a list of options, so restore the list.
        lists = {group: option for group, option in options.items() if option.startswith("[")}
        choices = {**config.hydra.runtime.choices, **lists}
        with open_dict(config):
            del config["hydra"]
        cache[arguments] = Composition(config, config, choices, files)
    return cache[arguments]


def compose_stage(
    name: str, options: StageOptions, overrides: Sequence[Override], outer: Sequence[Override], *, is_users: bool
) -> Composition:
    """Compose the configuration of one stage of a run.

    The experiment, the options of the stage and the overrides are combined. Config group overrides apply first, then
    value overrides whose key the stage has, then `stages.NAME.*` overrides.

    Args:
        name: name of the stage.
        options: options of the stage.
        overrides: all overrides from the command line.
        outer: overrides outside the stages of the user's experiment.
        is_users: whether the user's experiment also sets the overrides of the stage's options.

    Raises:
        ConfigError: if the configuration cannot be composed.
    """
    for_stage = [override.inner for override in overrides if override.stage == name]
    stage_overrides = [override for override in for_stage if override.key not in StageOptions.model_fields]
    applied = [] if options.run else stage_overrides
    common = [override for override in overrides if not override.is_below(*RUN_LEVEL_KEYS)]
    outer, common = ([o for o in part if (o.group or o.key) not in options.keeps] for part in (outer, common))
    inner = [Override.parse(f"experiment={options.experiment}"), *map(Override.parse, options.overrides)]
    command_line = [*common, *applied]
    try:
        # The later of the two file levels takes precedence.
        base = compose_options([*(outer + inner if is_users else inner + outer), *command_line])
        outer = [override for override in outer if base.applies_override(override)]
        scaled = set() if is_users else _keys_changed_by_scale(base, inner, [*outer, *command_line])
        unscaled = [override for override in inner if override.key not in scaled]
        files = outer + unscaled if is_users else unscaled + outer
        base = base.with_values(drop_debug_overridden(files, command_line))
        common = [override for override in common if base.applies_override(override)]
        composed = base.with_values([*common, *applied])
    except ConfigCompositionException as error:
        user_error = explain(error, COMMAND, to_strings([*inner, *outer, *command_line]))
        location, hint = ".".join(filter(None, [f"stages.{name}", user_error.where])), user_error.remedy
        if hint and user_error.problem == "unknown key":
            hint = hint.replace("Did you mean ", f"Did you mean stages.{name}.")
        raise ConfigError(user_error.problem, where=location, remedy=hint) from error
    composed = replace(composed, base=base.config, name=name, options=options, stage_overrides=stage_overrides)
    return replace(composed, common_overrides=common, experiment_overrides=outer)


def _keys_changed_by_scale(base: Composition, first: Sequence[Override], command_line: Sequence[Override]) -> set[str]:
    """Return the keys that get other values if the command line replaces a stage's `scale`.

    The files that the two scales select in `conf/scale` and `conf/recipe` are compared.

    Args:
        base: composition of the stage, whose task, data and model select the recipes.
        first: overrides of the stage's experiment and options.
        command_line: overrides from the command line.
    """
    scale, values = get_override_value(first, "scale"), []
    for choice in (scale, get_override_value(command_line, "scale") or scale):
        values.append(flat_keys(read_config(find_config(f"scale/{choice}"))))
        for group in ("task", "data", "model"):
            for content in load_extended_option(f"recipe/{group}", f"{choice}/{base.choices.get(group)}"):
                values[-1] |= flat_keys(content)
    return {key for key in {*values[0], *values[1]} if values[0].get(key) != values[1].get(key)}


def read_user_stages(experiment: str | None) -> tuple[list[Override], set[str]]:
    """Read the overrides in the files of a user-defined experiment with several stages.

    Args:
        experiment: name of the experiment. None without an experiment.

    Returns:
        The overrides outside the stages, and the names of stages with an `overrides` list.

    Raises:
        ConfigError: if an extended experiment of the package sets keys outside the stages.
    """
    user_files, run_overrides, stages = user_experiment_files(str(experiment)), list[Override](), set[str]()
    for file in extended_files("experiment", str(experiment)):
        overrides = [*read_experiment_overrides(file)]
        if overrides and file not in user_files:
            problem = f"{overrides[0].key} is set outside the stages, so no stage uses it"
            hint = "Move it to stages.NAME.overrides, or type it, which sets it in every stage that has the key"
            raise ConfigError(problem, where=f"experiment={experiment}", remedy=hint)
        nodes = (read_config(file).get("stages") or {}).items() if file in user_files else ()
        run_overrides += overrides
        stages |= {name for name, node in nodes if isinstance(node, dict) and "overrides" in node}
    return run_overrides, stages


def hash_user_files(chosen: Mapping[str, str | None]) -> dict[str, str]:
    """Hash each of the user's configuration files that affects the results of a run.

    Args:
        chosen: selected option of each config group.

    Returns:
        Hash by `conf/GROUP/NAME.yaml`, for the files of the options and the files that they extend.
    """
    folder = user_config_dir()
    if folder is None:
        return {}
    groups = [group for group in chosen if not is_ignored(group.replace("/", ".")) and group not in ("sweep", "debug")]
    names = [(group, str(chosen.get(group)).strip("[]").split(",")) for group in ("experiment", *groups)]
    files = [file for group, names_of_group in names for name in names_of_group for file in extended_files(group, name)]
    users = sorted(file for file in files if file.is_relative_to(folder))
    return {f"{CONF}/{file.relative_to(folder).as_posix()}": hash_file(file) for file in users}


def warn_recipe_changes(overrides: Sequence[Override], whole: Composition) -> None:
    """Warn if the recipe of a model given on the command line changes keys outside `model`.

    For example, a recipe may set `encoding.max_tokens` for a model at a scale.

    Args:
        overrides: overrides from the command line.
        whole: composition of the run.
    """
    model, scale = get_override_value(overrides, "model"), whole.choices.get("scale")
    files = load_extended_option("recipe/model", f"{scale}/{model}") if model else ()
    keys = {key for content in files for key in flat_keys(content) if not key.startswith(("model", "init", "defaults"))}
    if keys := keys - {override.key for override in overrides}:
        without_model = compose_options(override for override in overrides if override.key != "model")
        for key in sorted(keys):
            previous, current = (OmegaConf.select(composition.config, key) for composition in (without_model, whole))
            if previous != current:
                warnings.warn(f"model={model} takes {key}={current} at scale={scale}, not {previous}", stacklevel=2)


def join_settings(stages: Sequence[Composition]) -> list[str]:
    """Join the settings of all stages that differ from the defaults to a list of overrides.

    A setting has no prefix `stages.NAME.` if all stages with its key have the same value.
    """
    settings: list[str] = []
    for stage in stages:
        for key, value in stage.find_settings().items():
            is_common = {stage_with_key.value(key) for stage_with_key in stages} <= {None, value}
            settings.append(f"{key}={value}" if is_common or not stage.name else f"stages.{stage.name}.{key}={value}")
    return list(dict.fromkeys(settings))


def _apply(override: HydraOverride, config: DictConfig) -> None:
    """Apply an override of a value to a configuration in place, with the semantics of Hydra.

    Raises:
        ConfigCompositionException: if the key does not exist, or exists although `+` should add it.
        ConfigError: if the override changes the length of a list.
    """
    section, _, name = override.key_or_group.rpartition(".")
    with suppress(OmegaConfBaseException):  # The section is a value. Hydra reports this error below.
        items = OmegaConf.select(config, section, throw_on_missing=False) if section else config
        if isinstance(items, ListConfig) and (override.is_delete() or name not in map(str, range(len(items)))):
            hint = f"Type '{section}=[...]'"
            raise ConfigError("lists are replaced as a whole", where=override.key_or_group, remedy=hint)
    ConfigLoaderImpl._apply_overrides_to_config([override], config)


def _leaves(config: DictConfig, *, resolve: bool = False) -> dict[str, Any]:
    """Return all values of a nested configuration by dotted key, such as `optimizer.lr`.

    If `resolve`, interpolations are resolved.
    """
    return flat_keys(cast("dict[str, Any]", OmegaConf.to_container(config, resolve=resolve)))
