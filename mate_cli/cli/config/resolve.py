"""From what is typed after `mate train` to the specification of a run: its stages, each composed and checked.

A word becomes an `Override`, overrides a `Composition` for each stage, a composition a `Stage`, and stages a `RunSpec`.
What is typed holds for every stage that has the key; `stages.NAME.key=value` holds for one. A plain run is composed
once, a chain once and once for each of its stages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError

from mate_cli.cli.config.composition import (
    COMMAND,
    Composition,
    compose_choices,
    compose_stage,
    composing,
    hash_own_files,
    join_settings,
    read_user_stages,
    tell_recipe,
)
from mate_cli.cli.config.hydra_errors import nearest_key, omegaconf_error
from mate_cli.cli.config.messages import offer, validation_messages
from mate_cli.cli.config.schema import StageOptions, as_list
from mate_cli.cli.config.user_config import WHOLE
from mate_cli.cli.config.validate import refuse
from mate_cli.cli.help import nearest
from mate_cli.cli.words import Override, last_value
from mate_cli.errors import ConfigError
from mate_cli.pipelines.run_spec import FROM_STAGE, MACHINE, After, RunSpec, Stage, init_from_stage
from mate_cli.runs.configuration import Node
from mate_cli.runs.identity import Names, differences, find_value, flat_keys, value_text

MAX_NAME = 200
"""Bytes of the name of a run's folder; that of a job has its number behind it."""
PARTS = ("name", "resume", "trust", "system", "stages")
"""Keys of the whole, whatever its stages are."""


def resolve(words: Sequence[str]) -> RunSpec:
    """Compose and check all that a command trains; nothing that needs torch is looked at.

    Raises:
        ConfigError: a key that no stage has, a value out of bounds, or stages that cannot follow each other.
        RunError: a run that is to stand in for a stage is not there, or not finished.
        HydraException: what is typed cannot be composed.
    """
    every = [Override.parse(word) for word in words]
    typed = [word for word in every if not word.is_below("hydra")]
    top, experiment = [word for word in typed if not word.stage], last_value(typed, "experiment")
    with composing([str(word) for word in every if word.is_below("hydra")]):
        chosen = compose_choices(top)
        options = (word for word in typed if word.stage and word.inner.key in StageOptions.model_fields)
        newly = (replace(word, sign=word.sign or "++") for word in options)  # such as stages.NAME.run
        whole = chosen.with_values([*(word for word in top if word.is_below(*WHOLE)), *newly])
        name, resume, trust, system, nodes = (_resolve_part(whole.config, key) for key in PARTS)
        recorded = [str(word) for word in typed if not word.is_below("name", "resume", "trust", "sweep")]
        spec = RunSpec((), whole.names, recorded, system, resume and str(resume), name=_check_name(name))
        stage_options = _stage_options(nodes or {}, typed)
        if not stage_options:
            if system:
                raise ConfigError("joins stages, and this experiment has none", where="system", remedy="Leave it out")
            plain = chosen.with_values(top)
            tell_recipe(top, plain)
            plain = replace(plain, options=StageOptions(experiment=experiment or ""), typed=top)
            stage = Stage("", plain.to_run_config(), plain.names, recorded, conf=hash_own_files(plain.choices))
            return replace(spec, stages=(stage,), settings=join_settings([plain]))
        beside, users = read_user_stages(experiment)
        composed = [
            compose_stage(name, stage, typed, beside, is_users=name in users) for name, stage in stage_options.items()
        ]
    for_all = [word for word in typed if not word.is_below(*WHOLE)]
    _refuse_untaken([*beside, *for_all], composed)
    stages = _connect_stages(composed, system, as_list(trust))
    old, new = (flat_keys({key: _resolve_part(part.config, key) for key in PARTS[-2:]}) for part in (chosen, whole))
    options_changed = [f"{key}={value_text(value)}" for key, _, value in differences(old, new, ()) if key in new]
    return replace(
        spec,
        stages=stages,
        names=_names_of(whole, stages, system),
        conf=hash_own_files(whole.choices),
        taken={str(word): tuple(stage.name for stage in composed if word in stage.shared) for word in for_all},
        settings=[*options_changed, *join_settings([stage for stage in composed if not stage.options.run])],
    )


def _resolve_part(config: DictConfig, part: str) -> Any:  # noqa: ANN401 - any value
    """Return a part of the configuration as plain values.

    Raises:
        ConfigError: it was deleted, or an interpolation in it leads nowhere.
    """
    if part not in [*config]:  # one without a value is there
        raise ConfigError("a run needs this key", where=f"~{part}", remedy="Leave it out")
    try:
        value = config[part]
        return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    except OmegaConfBaseException as error:
        raise omegaconf_error(error) from error


def _check_name(name: object) -> str | None:
    """Return the name that the run's folder is to have; None without one.

    Raises:
        ConfigError: no folder can have it.
    """
    if name is not None and (not re.fullmatch(r"\w[\w.-]*", str(name)) or len(os.fsencode(str(name))) > MAX_NAME):
        remedy = "Use letters, digits, dots, dashes and underscores; paths.outputs sets its parent folder"
        raise ConfigError("is not a valid folder name", where=f"name={name}", remedy=remedy)
    return None if name is None else str(name)


def _stage_options(nodes: Any, typed: Iterable[Override]) -> dict[str, StageOptions]:  # noqa: ANN401 - what is typed
    """Return the options of each stage that is not left out.

    Raises:
        ConfigError: an unknown stage or key, or a value of the wrong kind.
    """
    if not isinstance(nodes, dict):
        raise ConfigError("must be a group of keys", where="stages", remedy="Write stages.NAME.experiment=...")
    known = [name for name, node in nodes.items() if not isinstance(node, dict) or "experiment" in node]
    for word in typed:
        _, below, name = word.key.partition("stages.")
        if below and word.sign != "~" and (name := name.split(".")[0]) not in known:
            listed = f"The stages are {', '.join(known)}" if known else "This experiment has none"
            raise ConfigError("no such stage", where=f"stages.{name}", remedy=nearest(name, known) or listed)
    options = {}
    for name, node in nodes.items():
        try:
            if node is not None:
                options[str(name)] = StageOptions.model_validate(node)
        except ValidationError as error:
            refuse(validation_messages(error, node, f"stages.{name}", StageOptions))
    if nodes and not options:
        raise ConfigError("all stages are left out", where="stages", remedy="Keep at least one")
    return options


def _refuse_untaken(words: Iterable[Override], composed: Sequence[Composition]) -> None:
    """Refuse what was typed for no stage at all, or only for stages that are not trained.

    Raises:
        ConfigError: naming the key, and the nearest one of any stage if none has it.
    """
    stages = ", ".join(stage.name for stage in composed)
    for word in words:
        having = [stage for stage in composed if word in (*stage.beside, *stage.typed)]
        if having and all(stage.options.run for stage in having) and not word.is_below(*MACHINE):
            names = ", ".join(stage.name for stage in having)
            problem = f"finished runs replace all stages that have this key ({names})"
            raise ConfigError(problem, where=str(word), remedy="Leave it out")
        if having:
            continue
        if word.group:
            remedy = f"Write stages.NAME.{word} to change it for one stage"
            raise ConfigError(f"the stages {stages} each have their own choice", where=str(word), remedy=remedy)
        near = (nearest_key(word.key, stage.config) for stage in composed)
        key = next((key for key in near if key and key != word.key), None)
        search = f"Search for it: mate {COMMAND} --help {word.key}"
        remedy = offer(f"{word.sign.strip('+')}{key}", word.value) if key else search
        raise ConfigError(f"no stage has this key ({stages})", where=word.key, remedy=remedy)


def _connect_stages(composed: Sequence[Composition], system: Node | None, trust: Sequence[str]) -> tuple[Stage, ...]:
    """Let each stage begin with the weights that the one before hands on.

    Raises:
        ConfigError: weights or an order of rows that nobody takes, predictions that no system joins, nothing to train,
            rows ordered by a stage that is not there, or something set that the weights decide.
    """
    stages: list[Stage] = []
    before: Stage | None = None
    first = composed[0]
    for words in composed:
        stage, last = words.to_stage(system, trust), words is composed[-1]
        end: After = "predictions" if system else "weights"
        if stage.after not in ((end,) if last else ("weights", "rows", end)):
            why = "no system combines them" if stage.after == "predictions" else "no stage follows"
            problem = f"passes on {stage.after}, but {why}"
            raise ConfigError(problem, where=f"stages.{stage.name}.after", remedy=f"Set it to {end}")
        _check_ranked(stage, stages)
        if last and not system and (stage.run or stage.shared):
            where = f"stages.{stage.name}.{'run' if stage.run else 'shared'}"
            raise ConfigError("the last stage must be trained by this run", where=where, remedy="Leave it out")
        first = first if before else words
        if before and not stage.run:
            config = init_from_stage(stage.config, before.config, before.name)
            _refuse_replaced(words, first, stage.config.model_dump(), config.model_dump())
            stage = replace(stage, config=config, names=stage.names.after(before.names, before.name))
        stages.append(stage)
        before = stage if stage.after == "weights" else None
    read = {str(stage.config.encoding.get("ranked_by")) for stage in stages}
    for stage in stages:
        references = {FROM_STAGE + stage.name, str(Path(stage.run).absolute()) if stage.run else ""}
        if stage.after == "rows" and read.isdisjoint(references):
            remedy = f"Write encoding.ranked_by={FROM_STAGE}{stage.name} below another stage, or leave it out"
            raise ConfigError("passes row rankings that no stage uses", where=f"stages.{stage.name}", remedy=remedy)
    return tuple(stages)


def _refuse_replaced(stage: Composition, first: Composition, asked: Node, now: Node) -> None:
    """Refuse what is set of a stage that the weights decide with which it begins.

    Args:
        stage: the words of the stage.
        first: those of the stage that the weights began with.
        asked: its values.
        now: its values with these weights.

    Raises:
        ConfigError: naming the key, and where to set it.
    """
    for word in (*stage.own, *stage.shared, *map(Override.parse, stage.options.overrides)):
        chosen = word.group == "init" and "kind" in now["init"]
        if word not in first.shared and (chosen or find_value(asked, word.key) != find_value(now, word.key)):
            where = str(word) if word in stage.shared else f"stages.{stage.name}.{word}"
            remedy = "Leave it out" if first.options.run else f"Write stages.{first.name}.{word}"
            raise ConfigError(f"{stage.name} starts from the weights of {first.name}", where=where, remedy=remedy)


def _check_ranked(stage: Stage, before: Sequence[Stage]) -> None:
    """Refuse rows that are ranked by a stage which hands on none, or is left out.

    Raises:
        ConfigError: naming it.
    """
    ranked_by = str(stage.config.encoding.get("ranked_by"))
    name = ranked_by.removeprefix(FROM_STAGE)
    if name != ranked_by and not any(earlier.name == name and earlier.after == "rows" for earlier in before):
        all_rows = "encoding.best_rows=null encoding.ranked_by=null"
        remedy = f"Write stages.{name}.run=FOLDER for a finished run, or {all_rows} to read all rows"
        where = f"stages.{stage.name}.encoding.ranked_by"
        raise ConfigError(f"no earlier stage named {name} ranks rows", where=where, remedy=remedy)


def _names_of(whole: Composition, stages: Sequence[Stage], system: Node | None) -> Names:
    """Name the whole: by its last stage without a system, else by the system and its `compared_by` stage."""
    if system is None:
        return replace(stages[-1].names, experiment=whole.names.experiment)
    name = str(whole.choices["system"])
    told = next((stage for stage in stages if stage.name == system.get("compared_by")), None)
    names = replace((told or stages[0]).names, experiment=whole.names.experiment, task=name)
    return names if told else replace(names, model=name)
