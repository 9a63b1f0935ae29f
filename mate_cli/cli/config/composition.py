"""A run, or a stage of one, as Hydra composes it of the words that it takes, and the settings that tell it apart.

Hydra composes the choices once; values are applied to what it has composed.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override as HydraOverride
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from mate_cli.cli.config.hydra_errors import explain, has_key, open_hydra, several_values
from mate_cli.cli.config.schema import StageOptions
from mate_cli.cli.config.user_config import WHOLE, read_words, with_user_experiment, without_debug
from mate_cli.cli.config.validate import plain_problems, refuse, resolve_values
from mate_cli.cli.config_dir import (
    extended_choice,
    extended_files,
    find_config,
    list_defaults,
    override_choices,
    read_config,
    user_config_dir,
    user_experiment_files,
)
from mate_cli.cli.words import Override, last_value, texts
from mate_cli.errors import ConfigError
from mate_cli.pipelines.run_spec import MACHINE, After, Stage, resolve_finished_run
from mate_cli.quoting import format_command
from mate_cli.runs.configuration import Node, RunConfig, load_config
from mate_cli.runs.identity import (
    CONF,
    REPEATED,
    Names,
    differences,
    flat_keys,
    hash_file,
    is_ignored,
    value_text,
)

COMMAND, RANDOM = "train", "random"


@dataclass(frozen=True)
class Composition:
    """A configuration, and the words that it is made of.

    Args:
        base: as files make it; what is typed is compared with it.
        config: with all values applied; interpolations stand.
        choices: the file of each group.
        overrides: all that it is composed of, in order.
        name: of the stage; empty for a plain run.
        options: of the stage.
        own: what was typed for this stage alone.
        typed: what was typed for every stage that has the key, as far as this one has it.
        beside: what the user's experiment sets beside its stages, likewise.
    """

    base: DictConfig
    config: DictConfig
    choices: Mapping[str, str | None]
    overrides: list[str]
    name: str = ""
    options: StageOptions = field(default_factory=partial(StageOptions, experiment=""))
    own: Sequence[Override] = ()
    typed: Sequence[Override] = ()
    beside: Sequence[Override] = ()

    @property
    def names(self) -> Names:
        """The choices by which a run is called; weights that begin random are called so, whatever file was chosen."""
        is_random = OmegaConf.select(self.config, "init.kind", throw_on_missing=False) == RANDOM
        return Names.of({**self.choices, **({"init": RANDOM} if is_random else {})})

    @property
    def shared(self) -> tuple[Override, ...]:
        """Overrides for all stages that shape its training: none where a finished run stands in."""
        return () if self.options.run else (*self.beside, *self.typed)

    def with_values(self, overrides: Iterable[Override]) -> Composition:
        """Apply those that set values, in their order, as Hydra does.

        Raises:
            ConfigError: one of them has several values.
            HydraException: one cannot be read, or its key does not exist.
        """
        values = texts(word for word in overrides if not word.group)
        if not values:
            return self
        config = copy.deepcopy(self.config)
        for override in OverridesParser.create().parse_overrides(values):
            if override.is_sweep_override():
                raise several_values(str(override.input_line))
            _apply(override, config)
        return replace(self, config=config, overrides=[*self.overrides, *values])

    def takes(self, word: Override) -> bool:
        """Say whether an override for all stages is of this one: it has the key, or the section in which to add it."""
        section = word.key.rpartition(".")[0]
        return bool(word.group) or has_key(self.config, section if "+" in word.sign else word.key)

    def find_settings(self) -> dict[str, str]:
        """Return the typed choices that are not its experiment's, and the values that are not those of its choices."""
        words = (*map(Override.parse, self.options.overrides), *self.beside)
        usual = dict(list_defaults(COMMAND)) | override_choices("experiment", self.options.experiment)
        usual |= {word.group: word.value for word in words if word.group}
        typed = {word.group: self.choices.get(word.group) for word in (*self.typed, *self.own) if word.group}
        chosen = {group: choice for group, choice in typed.items() if str(choice) != str(usual.get(group))}
        settings = {group: value_text(choice) for group, choice in chosen.items() if not is_ignored(group)}
        base, now = _leaves(self.base), _leaves(self.config)
        for key, before, _ in differences(base, now, REPEATED):
            unset = before
            if "${" in str(before):  # without what is typed of it, it would be what it refers to
                OmegaConf.update(trial := copy.deepcopy(self.config), key, before, merge=False)
                unset = OmegaConf.select(trial, key)
            value = self.values.get(key, value_text(None))
            if value != value_text(unset) or (key in base) != (key in now):  # also null in place of a section
                settings[key] = value
        return settings

    @cached_property
    def values(self) -> dict[str, str]:
        """Its values by dotted key, as texts."""
        return {key: value_text(value) for key, value in _leaves(self.config, resolve=True).items()}

    def value(self, key: str) -> str | None:
        """Return a choice or a value as text; None without the key, and for a choice that it keeps."""
        value = str(self.choices[key]) if key in self.choices else self.values.get(key)
        return None if key in self.options.keeps else value

    def to_run_config(self) -> RunConfig:
        """Return the typed configuration.

        Raises:
            ConfigError: one line per problem, naming key, value and remedy.
        """
        try:
            values = resolve_values(self.config)
            refuse(_parts_without_class(values))
            refuse(plain_problems(values, COMMAND))
        except ConfigError as error:
            raise ConfigError(str(error), where=f"stages.{self.name}" if self.name else None) from error
        return RunConfig.model_validate({key: values[key] for key in RunConfig.model_fields if key in values})

    def to_stage(self, system: Node | None, trust: Sequence[str]) -> Stage:
        """Return the stage, complete but for the weights of another.

        Raises:
            ConfigError: a value is wrong, or would change nothing.
            RunError: the run that is to stand in for it cannot.
            TrustError: it is made of what is neither ours nor trusted.
        """
        where = f"stages.{self.name}"
        if self.config.stages:
            remedy = "Use an experiment without stages"
            raise ConfigError("has stages itself", where=f"{where}.experiment", remedy=remedy)
        after: After = self.options.after or ("predictions" if system else "weights")
        if self.options.run and self.own:
            remedy = f"Leave this out, or {where}.run"
            raise ConfigError("a finished run replaces this stage", where=f"{where}.{self.own[0]}", remedy=remedy)
        config = self.to_run_config()
        if not self.options.run:
            conf = hash_own_files(self.choices)
            return Stage(self.name, config, self.names, self.overrides, None, after, self.options.shared, conf=conf)
        folder, record = resolve_finished_run(
            self.options.run, self.name, self.names.task, Path(config.paths.outputs), train_command
        )
        config = load_config(folder.path, trust).model_copy(update={key: getattr(config, key) for key in MACHINE})
        names = Names.read(vars(record))
        return Stage(self.name, config, names, record.overrides, str(folder.path), after, trust=trust)


def train_command(experiment: str) -> str:
    """Return the command that trains an experiment once its first stages are trained; empty without such a file."""
    content = read_config(file) if (file := find_config(f"experiment/{experiment}")) else None
    if content is None:
        return ""
    stages = [*(content.get("stages") or {}).items()][:-1]
    first = {name: options.get("experiment") for name, options in stages if isinstance(options, dict)}
    runs = [f"stages.{name}.run={run}" for name, run in first.items() if run]
    return format_command("mate", "train", f"experiment={experiment}", *runs)


_composed: list[tuple[Sequence[str], dict[tuple[str, ...], Composition]]] = []
"""Words for Hydra itself, and what was composed of choices, while a block lets Hydra compose."""


@contextmanager
def composing(of_hydra: Sequence[str] = ()) -> Iterator[None]:
    """Let Hydra compose, also within its own main function; it reads all files anew, so what it composes is kept.

    Args:
        of_hydra: overrides of Hydra's own keys, such as `hydra.searchpath`, for all that is composed.
    """
    with nullcontext() if _composed else open_hydra():
        _composed.append((of_hydra, _composed[-1][1] if _composed else {}))
        try:
            yield
        finally:
            _composed.pop()


def compose_choices(overrides: Iterable[Override]) -> Composition:
    """Let Hydra compose a configuration of those that choose files of groups; see `composing`."""
    of_hydra, known = _composed[-1]
    files = [str(word) for word in overrides if word.group]
    words = (*of_hydra, *files)
    if words not in known:
        every = with_user_experiment(words)
        config = compose(COMMAND, every, return_hydra_config=True)
        written = {word.group: (word.value or "").replace(" ", "") for word in map(Override.parse, every)}
        lists = {group: text for group, text in written.items() if group and text.startswith("[")}
        chosen = {**config.hydra.runtime.choices, **lists}  # of a list it says None
        with open_dict(config):
            del config["hydra"]
        known[words] = Composition(config, config, chosen, files)
    return known[words]


def compose_stage(
    name: str, options: StageOptions, typed: Sequence[Override], beside: Sequence[Override], *, is_users: bool
) -> Composition:
    """Compose a stage: choices first, then the values whose keys it has, what is typed for it alone last.

    Args:
        name: of the stage.
        options: of the stage.
        typed: all that was.
        beside: what the user's experiment sets beside its stages.
        is_users: what the stage's options override stands in the user's experiment too.

    Raises:
        ConfigError: it cannot be composed so.
    """
    own = [word.inner for word in typed if word.stage == name and word.inner.key not in StageOptions.model_fields]
    alone = [] if options.run else own
    of_all = [word for word in typed if not word.is_below(*WHOLE)]
    beside, of_all = ([w for w in words if (w.group or w.key) not in options.keeps] for words in (beside, of_all))
    first = [Override.parse(f"experiment={options.experiment}"), *map(Override.parse, options.overrides)]
    now = [*of_all, *alone]
    try:
        base = compose_choices([*(beside if is_users else ()), *first, *(() if is_users else beside), *now])
        beside = [word for word in beside if base.takes(word)]
        scaled = set() if is_users else _scaled_keys(base, first, [*beside, *now])
        files = [*beside, *first] if is_users else [*(word for word in first if word.key not in scaled), *beside]
        base = base.with_values(without_debug(files, now))
        fits = [word for word in of_all if base.takes(word)]
        composed = base.with_values([*fits, *alone])
    except ConfigCompositionException as error:
        explained = explain(error, COMMAND, texts([*first, *beside, *now]))
        where, remedy = ".".join(filter(None, [f"stages.{name}", explained.where])), explained.remedy
        if remedy and explained.problem == "unknown key":
            remedy = remedy.replace("Did you mean ", f"Did you mean stages.{name}.")
        raise ConfigError(explained.problem, where=where, remedy=remedy) from error
    return replace(composed, base=base.config, name=name, options=options, own=own, typed=fits, beside=beside)


def _scaled_keys(base: Composition, first: Sequence[Override], typed: Sequence[Override]) -> set[str]:
    """Return the keys that a typed scale sets otherwise than that of the stage, for its task, data and network."""
    scale, values = last_value(first, "scale"), []
    for choice in (scale, last_value(typed, "scale") or scale):
        values.append(flat_keys(read_config(find_config(f"scale/{choice}"))))
        for group in ("task", "data", "model"):
            for content in extended_choice(f"recipe/{group}", f"{choice}/{base.choices.get(group)}"):
                values[-1] |= flat_keys(content)
    return {key for key in {*values[0], *values[1]} if values[0].get(key) != values[1].get(key)}


def read_user_stages(experiment: str | None) -> tuple[list[Override], set[str]]:
    """Read what an experiment of the user's sets beside its stages, and the names of stages that it overrides.

    Raises:
        ConfigError: a shipped experiment that it extends sets something beside stages, for which it was not made.
    """
    users, beside, stages = user_experiment_files(str(experiment)), list[Override](), set[str]()
    for file in extended_files("experiment", str(experiment)):
        words = [*read_words(file)]
        if words and file not in users:
            problem = f"{words[0].key} is set outside the stages, so no stage uses it"
            remedy = "Move it to stages.NAME.overrides, or type it, which sets it in every stage that has the key"
            raise ConfigError(problem, where=f"experiment={experiment}", remedy=remedy)
        nodes = (read_config(file).get("stages") or {}).items() if file in users else ()
        beside += words
        stages |= {name for name, node in nodes if isinstance(node, dict) and "overrides" in node}
    return beside, stages


def hash_own_files(chosen: Mapping[str, str | None]) -> dict[str, str]:
    """Hash the user's own files of choices that matter, and what they extend; by `conf/GROUP/NAME.yaml`."""
    folder = user_config_dir()
    groups = [group for group in chosen if not is_ignored(group.replace("/", ".")) and group not in ("sweep", "debug")]
    names = [(group, str(chosen.get(group)).strip("[]").split(",")) for group in ("experiment", *groups)]
    files = [file for group, several in names for name in several for file in extended_files(group, name)]
    users = sorted(file for file in files if folder and file.is_relative_to(folder))
    return {f"{CONF}/{file.relative_to(folder or file).as_posix()}": hash_file(file) for file in users}


def tell_recipe(typed: Sequence[Override], whole: Composition) -> None:
    """Warn where the network that is typed sets other keys at this scale than its own, such as the length of inputs."""
    model, scale = last_value(typed, "model"), whole.choices.get("scale")
    files = extended_choice("recipe/model", f"{scale}/{model}") if model else ()
    keys = {key for content in files for key in flat_keys(content) if not key.startswith(("model", "init", "defaults"))}
    if keys := keys - {word.key for word in typed}:
        others = compose_choices(word for word in typed if word.key != "model")
        for key in sorted(keys):
            before, now = (OmegaConf.select(composition.config, key) for composition in (others, whole))
            if before != now:
                warnings.warn(f"model={model} takes {key}={now} at scale={scale}, not {before}", stacklevel=2)


def join_settings(stages: Sequence[Composition]) -> list[str]:
    """Return the settings of all stages as overrides: of one key for all that have it, where they agree."""
    settings: list[str] = []
    for stage in stages:
        for key, value in stage.find_settings().items():
            is_common = {other.value(key) for other in stages} <= {None, value}
            settings.append(f"{key}={value}" if is_common or not stage.name else f"stages.{stage.name}.{key}={value}")
    return list(dict.fromkeys(settings))


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
        items = OmegaConf.select(config, section, throw_on_missing=False) if section else config
        if isinstance(items, ListConfig) and (override.is_delete() or name not in map(str, range(len(items)))):
            raise ConfigError("lists are replaced as a whole", where=key, remedy=f"Type '{section}=[...]'")
        current = OmegaConf.select(config, key, throw_on_missing=False)
        if override.is_delete():
            if current is None:
                raise ConfigCompositionException(f"Could not delete from config. '{key}'")
            if value not in (None, current):
                raise ConfigCompositionException(f"~{key}={value}: its value is {current}")
            with open_dict(config):
                del items[name]
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


def _leaves(config: DictConfig, *, resolve: bool = False) -> dict[str, Any]:
    """Return the values of a configuration by dotted key, as files write them or resolved."""
    return flat_keys(cast("dict[str, Any]", OmegaConf.to_container(config, resolve=resolve)))
