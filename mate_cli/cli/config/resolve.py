"""From what is typed after `mate train` to the specification of a run: its stages, each composed and checked.

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

from mate_cli.cli.config.composition import COMMAND, Composition, composer
from mate_cli.cli.config.file_values import (
    SharedWords,
    hash_own_files,
    last_value,
    tell_recipe,
)
from mate_cli.cli.config.foreign_keys import offer
from mate_cli.cli.config.hydra_errors import nearest_key, omegaconf_error
from mate_cli.cli.config.override import Override
from mate_cli.cli.config.schema import StageOptions, as_list
from mate_cli.cli.config.stage_words import StageWords, changed_options, is_option, join_settings, stage_key
from mate_cli.cli.config.validation_messages import validation_messages
from mate_cli.cli.shell.help import nearest
from mate_cli.errors import ConfigError
from mate_cli.pipelines.run_spec import (
    FROM_STAGE,
    MACHINE,
    After,
    RunSpec,
    Stage,
    init_from_stage,
)
from mate_cli.runs.configuration import Node
from mate_cli.runs.identity import Names

MAX_NAME = 200
"""Bytes of the name of a run's folder; that of a job has its number behind it."""
WHOLE = ("experiment", "name", "resume", "system", "stages", "sweep", "trust", "hydra")
"""Parts of the configuration that are no stage's."""


def resolve(words: Sequence[str]) -> RunSpec:
    """Compose and check all that a command trains; nothing that needs torch is looked at.

    Raises:
        ConfigError: a key that no stage has, a value out of bounds, or stages that cannot follow each other.
        RunError: a run that is to stand in for a stage is not there, or not finished.
        HydraException: what is typed cannot be composed.
    """
    typed = [Override.parse(word) for word in words]
    with composer([str(word) for word in typed if word.is_below("hydra")]) as hydra:
        typed = [word for word in typed if not word.is_below("hydra")]
        top = [word for word in typed if not stage_key(word)]
        chosen = hydra.compose([word for word in top if word.group])
        of_whole = [word for word in top if not word.group and word.is_below(*WHOLE)]
        whole = chosen.with_values([*of_whole, *_options(typed)])
        options = _stage_options(whole.config, typed)
        recorded = [str(word) for word in typed if not word.is_below("name", "resume", "trust", "sweep")]
        resume = _resolve_part(whole.config, "resume")
        spec = RunSpec((), whole.names, recorded, resume=resume and str(resume), name=_name_of(whole.config))
        if not options:
            whole = chosen.with_values([word for word in top if not word.group])
            tell_recipe(hydra, top, whole)
            plain = StageWords(
                "", StageOptions(experiment=last_value(typed, "experiment") or ""), whole, tuple(top), (), ()
            )
            stage = Stage("", whole.to_run_config(), whole.names, recorded, conf=hash_own_files(whole.choices))
            return replace(spec, stages=(stage,), settings=join_settings([plain]))
        shared = SharedWords.of([word for word in typed if not word.is_below(*WHOLE)], last_value(typed, "experiment"))
        composed = {name: StageWords.of(hydra, name, stage, typed, shared) for name, stage in options.items()}
    _refuse_untaken([*shared.beside, *shared.typed], composed.values())
    system: Node | None = _resolve_part(whole.config, "system")
    stages = _connect_stages(list(composed.values()), system, as_list(_resolve_part(whole.config, "trust")))
    return replace(
        spec,
        stages=stages,
        names=_names_of(whole, stages, system),
        system=system,
        conf=hash_own_files(whole.choices),
        taken={
            str(word): tuple(name for name, stage in composed.items() if word in stage.shared_overrides)
            for word in shared.typed
        },
        settings=[
            *changed_options(chosen, whole),
            *join_settings([stage for stage in composed.values() if not stage.options.run]),
        ],
    )


def _options(typed: Iterable[Override]) -> list[Override]:
    """Return the overrides of options of stages, such as `stages.NAME.run`, or to leave one out."""
    return [replace(word, sign=word.sign or "++") for word in typed if is_option(word)]


def _resolve_part(config: DictConfig, part: str) -> Any:  # noqa: ANN401 - any value
    """Return a part of the configuration as plain values."""
    try:
        value = config[part]
        return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    except OmegaConfBaseException as error:
        raise omegaconf_error(error) from error


def _name_of(config: DictConfig) -> str | None:
    """Return the name that the run's folder is to have; None without one.

    Raises:
        ConfigError: no folder can have it.
    """
    name = _resolve_part(config, "name")
    if name is None:
        return None
    if not re.fullmatch(r"\w[\w.-]*", str(name)) or len(os.fsencode(str(name))) > MAX_NAME:
        remedy = "Use letters, digits, dots, dashes and underscores; paths.outputs sets its parent folder"
        raise ConfigError("is not a valid folder name", where=f"name={name}", remedy=remedy)
    return str(name)


def _stage_options(config: DictConfig, typed: Iterable[Override]) -> dict[str, StageOptions]:
    """Return the options of each stage that is not left out.

    Raises:
        ConfigError: an unknown stage or key, or a value of the wrong kind.
    """
    nodes: Any = _resolve_part(config, "stages") or {}
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
            raise ConfigError(
                "\n       ".join(validation_messages(error, node, f"stages.{name}", StageOptions))
            ) from error
    if nodes and not options:
        raise ConfigError("all stages are left out", where="stages", remedy="Keep at least one")
    return options


def _refuse_untaken(words: Iterable[Override], composed: Iterable[StageWords]) -> None:
    """Refuse what was typed for no stage at all, or only for stages that are not trained.

    Raises:
        ConfigError: naming the key, and the nearest one of any stage if none has it.
    """
    every = list(composed)
    stages = ", ".join(stage.name for stage in every)
    for word in words:
        having = [stage for stage in every if word in stage.fits]
        if having and all(stage.options.run for stage in having) and not word.is_below(*MACHINE):
            problem = (
                f"finished runs replace all stages that have this key ({', '.join(stage.name for stage in having)})"
            )
            raise ConfigError(problem, where=str(word), remedy="Leave it out")
        if having:
            continue
        if word.group:
            remedy = f"Write stages.NAME.{word} to change it for one stage"
            raise ConfigError(f"the stages {stages} each have their own choice", where=str(word), remedy=remedy)
        near = [nearest_key(word.key, stage.composed.config) for stage in every]
        suggestion = next((key for key in near if key and key != word.key), None)
        remedy = (
            offer(f"{word.sign.strip('+')}{suggestion}", word.value)
            if suggestion
            else f"Search for it: mate {COMMAND} --help {word.key}"
        )
        raise ConfigError(f"no stage has this key ({stages})", where=word.key, remedy=remedy)


def _connect_stages(composed: Sequence[StageWords], system: Node | None, trust: Sequence[str]) -> tuple[Stage, ...]:
    """Let each stage begin with the weights that the one before hands on.

    Raises:
        ConfigError: weights or an order of rows that nobody takes, predictions that no system joins, nothing to train,
            rows ordered by a stage that is not there, or something set that the weights decide.
    """
    stages: list[Stage] = []
    before: Stage | None = None
    first = composed[0]
    for words in composed:
        stage, last = words.stage(system, trust), words is composed[-1]
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
            words.refuse_replaced(stage.config, config, first)
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


def _check_ranked(stage: Stage, before: Sequence[Stage]) -> None:
    """Refuse rows that are ranked by a stage which hands on none, or is left out.

    Raises:
        ConfigError: naming it.
    """
    ranked_by = str(stage.config.encoding.get("ranked_by"))
    name = ranked_by.removeprefix(FROM_STAGE)
    if name != ranked_by and not any(earlier.name == name and earlier.after == "rows" for earlier in before):
        all_rows = "encoding.best_rows=null encoding.ranked_by=null"
        raise ConfigError(
            f"no earlier stage named {name} ranks rows",
            where=f"stages.{stage.name}.encoding.ranked_by",
            remedy=f"Write stages.{name}.run=FOLDER for a finished run, or {all_rows} to read all rows",
        )


def _names_of(whole: Composition, stages: Sequence[Stage], system: Node | None) -> Names:
    """Name the whole: by its last stage without a system, else by the system and its `compared_by` stage."""
    if system is None:
        return replace(stages[-1].names, experiment=whole.names.experiment)
    name = str(whole.choices["system"])
    told = next((stage for stage in stages if stage.name == system.get("compared_by")), None)
    names = replace((told or stages[0]).names, experiment=whole.names.experiment, task=name)
    return names if told else replace(names, model=name)
