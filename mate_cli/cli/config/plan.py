"""From the words after `mate train` to the plan of a run: its stages, each composed and checked.

What is typed holds for every stage that has the key; `stages.NAME.key=value` holds for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from pydantic import ValidationError

from mate_cli.cli.config.words import Word
from mate_cli.cli.config_dir import config_dir, user_config_dir
from mate_cli.cli.explain import explain, nearest_key
from mate_cli.cli.help import nearest
from mate_cli.cli.schema import StageOptions
from mate_cli.cli.sentences import sentences
from mate_cli.cli.validate import plain_problems, resolved
from mate_cli.errors import ConfigError
from mate_cli.pipelines.plan import After, Plan, Stage, beginning_with
from mate_cli.runs.configuration import Node, RunConfig, load_config
from mate_cli.runs.folders import open_run
from mate_cli.runs.names import Names

COMMAND = "train"
OF_THE_WHOLE = ("experiment", "resume", "system", "stages", "sweep", "hydra")
"""Parts of the configuration that are no stage's."""


@contextmanager
def hydra_at_work(folder: Path | None = None) -> Iterator[None]:
    """Let Hydra compose outside its own main function.

    Args:
        folder: the user's configuration, found beside ours; `./conf` when it is None.
    """
    global _own
    busy = GlobalHydra.instance().hydra  # a sweep's job is composed while Hydra is at work on the sweep
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(config_dir()), version_base="1.3"):
            _own = folder or user_config_dir()
            yield
    finally:
        GlobalHydra.instance().hydra, _own = busy, None


_own: Path | None = None


@dataclass(frozen=True)
class Composed:
    """A configuration of `mate train` and the choices it was made of."""

    config: DictConfig
    choices: Mapping[str, str | None]

    @classmethod
    def of(cls, words: Sequence[str]) -> Composed:
        """Let Hydra compose it."""
        own = [f"hydra.searchpath=[file://{_own.absolute()}]"] if _own else []
        config = compose(COMMAND, [*words, *own], return_hydra_config=True)
        choices = dict(config.hydra.runtime.choices)
        with open_dict(config):
            del config["hydra"]
        return cls(config, choices)

    @property
    def names(self) -> Names:
        """The choices by which a run is called."""
        return Names.of(self.choices)

    def has(self, key: str) -> bool:
        """Whether there is such a key, set or not."""
        node: Any = self.config
        for part in key.split("."):
            if not isinstance(node, DictConfig) or node._is_none() or node._is_missing() or part not in node:
                return False
            node = node._get_node(part)
        return True

    def checked(self) -> RunConfig:
        """The typed configuration.

        Raises:
            ConfigError: one line per problem, naming key, value and remedy.
        """
        values = resolved(self.config)
        if problems := list(plain_problems(values, COMMAND)):
            raise ConfigError("\n       ".join(problems))
        return RunConfig.model_validate({key: values[key] for key in RunConfig.model_fields})


def compose_plan(words: Sequence[str]) -> Plan:
    """Compose and check all that a command trains; nothing that needs torch is looked at.

    Args:
        words: overrides as typed, without flags.

    Raises:
        ConfigError: a key that no stage has, a value out of bounds, or stages that cannot follow each other.
        RunError: a run that is to stand in for a stage is not there, or not finished.
    """
    parsed = OverridesParser.create().parse_overrides(list(words))
    resumed = next((one.value() for one in reversed(parsed) if one.key_or_group == "resume"), None)
    resume = None if resumed is None else str(resumed)
    typed = [Word.parse(word) for word in words]
    told = [str(word) for word in typed if not word.is_below("resume", "hydra", "sweep")]
    whole = Composed.of([str(word) for word in typed if _is_of_the_whole(word)])
    own = {one.key_or_group: one.value() for one in parsed if _names_an_option(one.key_or_group)}
    options = _stage_options(whole.config, own, typed)
    if not options:
        plain = Composed.of(told)
        return Plan((Stage("", plain.checked(), plain.names, told),), plain.names, told, resume=resume)
    general = [word for word in typed if not word.is_below(*OF_THE_WHOLE)]
    composed = {name: _StageWords.of(name, one, typed, general) for name, one in options.items()}
    _refuse_untaken(general, composed)
    system: Node | None = OmegaConf.to_container(whole.config.system) if whole.config.system else None  # type: ignore[assignment]
    stages = _in_line([one.stage(options[name], system) for name, one in composed.items()], system)
    taken = {str(word): tuple(name for name, one in composed.items() if word in one.taken) for word in general}
    return Plan(stages, _names_of(whole, stages, system), told, system=system, resume=resume, taken=taken)


def _is_of_the_whole(word: Word) -> bool:
    """Whether it says which stages there are."""
    return word.is_below("experiment", "system") or (word.is_below("stages") and word.key.count(".") < 2)


def _names_an_option(key: str) -> bool:
    """Whether it is an option of a stage, such as stages.cs.run, and no key of its configuration."""
    parts = key.split(".")
    return len(parts) == 3 and parts[0] == "stages" and parts[2] in StageOptions.model_fields


def _stage_options(config: DictConfig, typed: Mapping[str, object], words: Sequence[Word]) -> dict[str, StageOptions]:
    """The options of each stage that is not left out.

    Args:
        config: the composed whole.
        typed: options that were typed, by their keys.
        words: all that was typed.

    Raises:
        ConfigError: an unknown stage or key, or a value of the wrong kind.
    """
    nodes: Any = OmegaConf.to_container(config.stages, resolve=True) if config.stages else {}
    if not isinstance(nodes, dict):
        raise ConfigError("must be a group of keys", where="stages", remedy="Write stages.NAME.experiment=...")
    for word in words:
        if word.is_below("stages") and "." in word.key and (name := word.key.split(".")[1]) not in nodes:
            known = f"The stages are {', '.join(nodes)}" if nodes else "This experiment has none"
            raise ConfigError("no such stage", where=f"stages.{name}", remedy=nearest(name, nodes) or known)
    for key, value in typed.items():
        _, name, option = key.split(".")
        nodes[name] = {**(nodes[name] or {}), option: value}
    found = {}
    for name, node in nodes.items():
        if node is None:
            continue
        try:
            found[str(name)] = StageOptions.model_validate(node)
        except ValidationError as error:
            raise ConfigError("\n       ".join(sentences(error, node, f"stages.{name}", StageOptions))) from error
    return found


@dataclass(frozen=True)
class _StageWords:
    """A stage's configuration, and what was typed that it has taken.

    Args:
        name: of the stage.
        composed: with all that it has taken.
        words: what it was composed of.
        taken: of what was typed for every stage that has the key.
    """

    name: str
    composed: Composed
    words: list[str]
    taken: tuple[Word, ...]

    @classmethod
    def of(cls, name: str, options: StageOptions, typed: Sequence[Word], general: Sequence[Word]) -> _StageWords:
        """Compose it: choices first, then the values whose keys it has, what is typed for it alone last."""
        own = [_below(word, name) for word in typed if word.key.startswith(f"stages.{name}.")]
        own = [word for word in own if word.key not in StageOptions.model_fields]
        chosen = [word for word in general if word.group and word.group not in options.keeps]
        first = [f"experiment={options.experiment}", *options.overrides]
        words = [*first, *map(str, chosen), *map(str, own)]
        composed = cls._compose(name, words)
        fitting = [word for word in general if not word.group and composed.has(word.key)]
        if fitting:
            words = [*first, *map(str, chosen), *map(str, fitting), *map(str, own)]
            composed = cls._compose(name, words)
        return cls(name, composed, words, tuple(word for word in general if word in (*chosen, *fitting)))

    @staticmethod
    def _compose(name: str, words: Sequence[str]) -> Composed:
        try:
            return Composed.of(words)
        except HydraException as error:
            told = explain(error, COMMAND, words)
            where = f"stages.{name}.{told.where}" if told.where else f"stages.{name}"
            raise ConfigError(told.problem, where=where, remedy=told.remedy) from error

    def stage(self, options: StageOptions, system: Node | None) -> Stage:
        """The stage, complete but for the weights of another."""
        try:
            config = self.composed.checked()
        except ConfigError as error:
            raise ConfigError(str(error), where=f"stages.{self.name}") from error
        after = options.after or ("predictions" if system else None)
        return Stage(self.name, config, self.composed.names, self.words, options.run, after)


def _below(word: Word, name: str) -> Word:
    return replace(word, key=word.key.removeprefix(f"stages.{name}."))


def _refuse_untaken(words: Sequence[Word], composed: Mapping[str, _StageWords]) -> None:
    """Refuse what was typed for no stage at all.

    Raises:
        ConfigError: naming the key and the nearest one of any stage.
    """
    for word in words:
        if any(word in one.taken for one in composed.values()):
            continue
        stages = ", ".join(composed)
        if word.group:
            remedy = f"Write stages.NAME.{word} to change one all the same"
            raise ConfigError(f"each of the stages {stages} keeps its own", where=str(word), remedy=remedy)
        near = [nearest_key(word.key, one.composed.config) for one in composed.values()]
        found = next((key for key in near if key and key != word.key), None)
        remedy = f"Did you mean {found}={word.value}?" if found else f"All keys: mate {COMMAND} --cfg job"
        raise ConfigError(f"no stage has this key ({stages})", where=word.key, remedy=remedy)


def _in_line(stages: Sequence[Stage], system: Node | None) -> tuple[Stage, ...]:
    """Let each stage begin with the weights that the one before hands on.

    Raises:
        ConfigError: weights that nobody takes, or predictions that no system joins.
    """
    found: list[Stage] = []
    before: list[Stage] = []
    for place, stage in enumerate(stages):
        last = place == len(stages) - 1
        allowed: tuple[After | None, ...] = (
            ("predictions", "weights") if system else (None, "weights") if last else ("weights",)
        )
        if stage.after not in allowed[: 1 if last and system else None]:
            raise ConfigError(
                f"hands on {stage.after or 'nothing'}, and that is not what comes after it takes",
                where=f"stages.{stage.name}.after",
                remedy=f"Set it to {allowed[0] or 'null'}",
            )
        if before:
            names = replace(stage.names, init=_initial(before[0])).after([one.name for one in before])
            config = beginning_with(stage.config, _trained_with(before[-1]), before[-1].name)
            stage = replace(stage, config=config, names=names)
        found.append(stage)
        before = [*before, stage] if stage.after == "weights" else []
    return tuple(found)


def _initial(stage: Stage) -> str:
    """What the weights of a stage began with."""
    return open_run(stage.run).read_record().init if stage.run else stage.names.init


def _trained_with(stage: Stage) -> RunConfig:
    """The configuration of a stage: its own, or that of the finished run in its place."""
    return load_config(open_run(stage.run).path) if stage.run else stage.config


def _names_of(whole: Composed, stages: Sequence[Stage], system: Node | None) -> Names:
    """What the whole is called by: its last stage without a system, else the system and the stage that tells."""
    if system is None:
        return replace(stages[-1].names, experiment=whole.names.experiment)
    name = str(whole.choices["system"])
    told = next((stage for stage in stages if stage.name == system.get("compared_by")), None)
    names = replace((told or stages[0]).names, experiment=whole.names.experiment, task=name)
    return names if told else replace(names, model=name)
