"""Resolve the arguments of `mate train` to a checked specification of the run.

An argument is parsed to an `Override`, overrides are composed to a `Composition` per stage, a composition is validated
as a `Stage`, which is a `RunConfig`, and the stages form a `RunSpec`.

An override applies to every stage that has its key. `stages.NAME.key=value` applies to one stage. A run without stages
is composed once. A run with stages is composed once as a whole, and once per stage.
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
    compose_options,
    compose_stage,
    hash_user_files,
    init_compose_api,
    join_settings,
    read_user_stages,
    warn_recipe_changes,
)
from mate_cli.cli.config.hydra_errors import nearest_key, omegaconf_error
from mate_cli.cli.config.messages import suggest_name, validation_messages
from mate_cli.cli.config.schema import StageOptions, as_list
from mate_cli.cli.config.validate import refuse
from mate_cli.cli.help import nearest
from mate_cli.cli.overrides import RUN_LEVEL_KEYS, Override, get_override_value
from mate_cli.errors import ConfigError
from mate_cli.pipelines.run_spec import FROM_STAGE, MACHINE, After, RunSpec, Stage, init_from_stage
from mate_cli.runs.configuration import Node
from mate_cli.runs.identity import Names, differences, find_value, flat_keys, value_text

MAX_NAME = 200
"""Maximum length of the name of a run folder in bytes. Sweeps append the job number to the name."""
RUN_OPTIONS = ("name", "resume", "trust", "system", "stages")
"""Keys that configure the run, not a stage."""


def resolve(arguments: Sequence[str]) -> RunSpec:
    """Convert command-line overrides to the specification of a run, without importing torch.

    Each stage is composed and validated. Its initial weights may be the output of the previous stage.

    Args:
        arguments: overrides from the command line.

    Raises:
        ConfigError: if an override fits no stage, a value is invalid, or stages cannot be connected.
        RunError: if a run that should replace a stage is missing or unfinished.
        HydraException: if the overrides cannot be composed.
    """
    all_overrides = [Override.parse(argument) for argument in arguments]
    overrides = [override for override in all_overrides if not override.is_below("hydra")]
    common_overrides = [override for override in overrides if not override.stage]
    experiment = get_override_value(overrides, "experiment")
    with init_compose_api([str(override) for override in all_overrides if override.is_below("hydra")]):
        with_options = compose_options(common_overrides)
        run_overrides = [override for override in common_overrides if override.is_below(*RUN_LEVEL_KEYS)]
        # Options of stages, such as stages.NAME.run, are part of the run.
        options = [o for o in overrides if o.stage and o.inner.key in StageOptions.model_fields]
        run = with_options.with_values([*run_overrides, *(replace(o, sign=o.sign or "++") for o in options)])
        name, resume, trust, system, nodes = (_resolve_part(run.config, key) for key in RUN_OPTIONS)
        not_recorded = ("name", "resume", "trust", "sweep")
        saved_overrides = [str(override) for override in overrides if not override.is_below(*not_recorded)]
        spec = RunSpec((), run.names, saved_overrides, system, resume and str(resume), name=_check_name(name))
        stage_options = _stage_options(nodes or {}, overrides)
        if not stage_options:
            if system:
                raise ConfigError("joins stages, and this experiment has none", where="system", remedy="Leave it out")
            single_stage = with_options.with_values(common_overrides)
            warn_recipe_changes(common_overrides, single_stage)
            stage_option = StageOptions(experiment=experiment or "")
            single_stage = replace(single_stage, options=stage_option, common_overrides=common_overrides)
            config, conf = single_stage.validate(), hash_user_files(single_stage.choices)
            stage = Stage.of(config, name="", names=single_stage.names, overrides=saved_overrides, conf=conf)
            return replace(spec, stages=(stage,), settings=join_settings([single_stage]))
        experiment_overrides, user_stages = read_user_stages(experiment)
        composed = [
            compose_stage(name, stage, overrides, experiment_overrides, is_users=name in user_stages)
            for name, stage in stage_options.items()
        ]
    stage_overrides = [override for override in overrides if not override.is_below(*RUN_LEVEL_KEYS)]
    _check_unused_overrides([*experiment_overrides, *stage_overrides], composed)
    stages = _connect_stages(composed, system, as_list(trust))
    old_parts, new_parts = (
        flat_keys({key: _resolve_part(part.config, key) for key in RUN_OPTIONS[-2:]}) for part in (with_options, run)
    )
    options_changed = [
        f"{key}={value_text(value)}" for key, _, value in differences(old_parts, new_parts, ()) if key in new_parts
    ]
    return replace(
        spec,
        stages=stages,
        names=_names_of(run, stages, system),
        conf=hash_user_files(run.choices),
        override_stages={
            str(override): tuple(stage.name for stage in composed if override in stage.unprefixed_overrides)
            for override in stage_overrides
        },
        settings=[*options_changed, *join_settings([stage for stage in composed if not stage.options.run])],
    )


def _resolve_part(config: DictConfig, part: str) -> Any:  # noqa: ANN401 - any value
    """Return a configuration value or section as built-in types, with interpolations resolved.

    Raises:
        ConfigError: if an override deleted the key, or an interpolation cannot be resolved.
    """
    if part not in [*config]:  # A missing value (???) is still a key.
        raise ConfigError("cannot be deleted, because a run needs it", where=f"~{part}", remedy="Leave it out")
    try:
        value = config[part]
        return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    except OmegaConfBaseException as error:
        raise omegaconf_error(error) from error


def _check_name(name: object) -> str | None:
    """Return the configured name of the run folder as text, or None if no name is configured.

    Raises:
        ConfigError: if the value is not a valid folder name.
    """
    if name is not None and (not re.fullmatch(r"\w[\w.-]*", str(name)) or len(os.fsencode(str(name))) > MAX_NAME):
        hint = "Use letters, digits, dots, dashes and underscores; paths.outputs sets its parent folder"
        raise ConfigError("is not a valid folder name", where=f"name={name}", remedy=hint)
    return None if name is None else str(name)


def _stage_options(nodes: Any, overrides: Iterable[Override]) -> dict[str, StageOptions]:  # noqa: ANN401 - any value
    """Validate the section `stages` of a configuration, and return its options by stage name.

    Stages that are set to null are excluded.

    Args:
        nodes: value of the section.
        overrides: all overrides from the command line, whose stage names are checked.

    Raises:
        ConfigError: for an unknown stage or key, a value of the wrong type, or if all stages are excluded.
    """
    if not isinstance(nodes, dict):
        raise ConfigError("must be a group of keys", where="stages", remedy="Write stages.NAME.experiment=...")
    stage_names = [name for name, node in nodes.items() if not isinstance(node, dict) or "experiment" in node]
    for override in overrides:
        _, prefix, name = override.key.partition("stages.")
        if prefix and override.sign != "~" and (name := name.split(".")[0]) not in stage_names:
            hint = f"The stages are {', '.join(stage_names)}" if stage_names else "This experiment has none"
            raise ConfigError("no such stage", where=f"stages.{name}", remedy=nearest(name, stage_names) or hint)
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


def _check_unused_overrides(overrides: Iterable[Override], composed: Sequence[Composition]) -> None:
    """Raise `ConfigError` if an override has no effect on any stage that will be trained.

    Raises:
        ConfigError: the error names the key. If no stage has it, the error suggests a similar key.
    """
    stages = ", ".join(stage.name for stage in composed)
    for override in overrides:
        stages_with_key = [
            stage for stage in composed if override in (*stage.experiment_overrides, *stage.common_overrides)
        ]
        if stages_with_key and all(stage.options.run for stage in stages_with_key) and not override.is_below(*MACHINE):
            names = ", ".join(stage.name for stage in stages_with_key)
            problem = f"finished runs replace all stages that have this key ({names})"
            raise ConfigError(problem, where=str(override), remedy="Leave it out")
        if stages_with_key:
            continue
        if override.group:
            hint = f"Write stages.NAME.{override} to change it for one stage"
            raise ConfigError(f"the stages {stages} each set this config group", where=str(override), remedy=hint)
        nearest_keys = (nearest_key(override.key, stage.config) for stage in composed)
        key = next((key for key in nearest_keys if key and key != override.key), None)
        search = f"Search for it: mate {COMMAND} --help {override.key}"
        hint = suggest_name(f"{override.sign.strip('+')}{key}", override.value) if key else search
        raise ConfigError(f"no stage has this key ({stages})", where=override.key, remedy=hint)


def _connect_stages(composed: Sequence[Composition], system: Node | None, trust: Sequence[str]) -> tuple[Stage, ...]:
    """Create the stages of a run, and connect the output of each stage to later stages.

    For example, the weights of a stage initialize the next stage. A stage outputs weights, predictions or row rankings,
    see `StageOptions.after`.

    Args:
        composed: compositions of the stages, in order.
        system: configuration of the system that combines the stages, None without a system.
        trust: `trust=` values from the command line.

    Raises:
        ConfigError: if no stage uses an output, a finished run replaces the last stage, a stage that ranks rows is
            missing, or an override contradicts the initial weights.
    """
    stages: list[Stage] = []
    previous: Stage | None = None
    first = composed[0]
    for composition in composed:
        stage, is_last = composition.to_stage(system, trust), composition is composed[-1]
        final_output: After = "predictions" if system else "weights"
        if stage.after not in ((final_output,) if is_last else ("weights", "rows", final_output)):
            reason = "no system combines them" if stage.after == "predictions" else "no stage follows"
            problem = f"passes on {stage.after}, but {reason}"
            raise ConfigError(problem, where=f"stages.{stage.name}.after", remedy=f"Set it to {final_output}")
        _check_ranked(stage, stages)
        if is_last and not system and (stage.run or stage.shared):
            location = f"stages.{stage.name}.{'run' if stage.run else 'shared'}"
            raise ConfigError("the last stage must be trained by this run", where=location, remedy="Leave it out")
        first = first if previous else composition
        if previous and not stage.run:
            composed_values, stage = stage.model_dump(), init_from_stage(stage, previous)
            _check_conflicting_settings(composition, first, composed_values, stage.model_dump())
        stages.append(stage)
        previous = stage if stage.after == "weights" else None
    rankers = {str(stage.encoding.get("ranked_by")) for stage in stages}
    for stage in stages:
        references = {FROM_STAGE + stage.name, str(Path(stage.run).absolute()) if stage.run else ""}
        if stage.after == "rows" and rankers.isdisjoint(references):
            hint = f"Write encoding.ranked_by={FROM_STAGE}{stage.name} below another stage, or leave it out"
            raise ConfigError("passes row rankings that no stage uses", where=f"stages.{stage.name}", remedy=hint)
    return tuple(stages)


def _check_conflicting_settings(stage: Composition, first: Composition, requested: Node, effective: Node) -> None:
    """Raise `ConfigError` if a stage overrides a setting which its checkpoint determines.

    Args:
        stage: composition of the stage.
        first: composition of the first stage in the chain of initial weights, which determines these settings.
        requested: composed values of the stage.
        effective: values of the stage with the settings of the checkpoint.

    Raises:
        ConfigError: the error names the override, and the stage in which to set it.
    """
    for override in (
        *stage.stage_overrides,
        *stage.unprefixed_overrides,
        *map(Override.parse, stage.options.overrides),
    ):
        is_init = override.group == "init" and "kind" in effective["init"]
        is_replaced = is_init or find_value(requested, override.key) != find_value(effective, override.key)
        if override not in first.unprefixed_overrides and is_replaced:
            location = str(override) if override in stage.unprefixed_overrides else f"stages.{stage.name}.{override}"
            hint = "Leave it out" if first.options.run else f"Write stages.{first.name}.{override}"
            raise ConfigError(f"{stage.name} starts from the weights of {first.name}", where=location, remedy=hint)


def _check_ranked(stage: Stage, previous_stages: Sequence[Stage]) -> None:
    """Raise `ConfigError` if `encoding.ranked_by` names no earlier stage that ranks rows.

    Args:
        stage: stage to check.
        previous_stages: earlier stages of the run.

    Raises:
        ConfigError: the error names the key and a hint.
    """
    ranked_by = str(stage.encoding.get("ranked_by"))
    name = ranked_by.removeprefix(FROM_STAGE)
    if name != ranked_by and not any(earlier.name == name and earlier.after == "rows" for earlier in previous_stages):
        all_rows = "encoding.best_rows=null encoding.ranked_by=null"
        hint = f"Write stages.{name}.run=FOLDER for a finished run, or {all_rows} to read all rows"
        location = f"stages.{stage.name}.encoding.ranked_by"
        raise ConfigError(f"no earlier stage named {name} ranks rows", where=location, remedy=hint)


def _names_of(run: Composition, stages: Sequence[Stage], system: Node | None) -> Names:
    """Return the names (such as model and dataset) of a run that may have several stages.

    Without a system, the options of the last stage are returned. With a system, its name is the task, and the other
    options are those of the stage in `compared_by`. If the system names no such stage, the options are those of the
    first stage, and the name of the system is also the model.

    Args:
        run: composition of the run.
        stages: stages of the run.
        system: configuration of the system, None without a system.
    """
    if system is None:
        return replace(stages[-1].names, experiment=run.names.experiment)
    name = str(run.choices["system"])
    reference = next((stage for stage in stages if stage.name == system.get("compared_by")), None)
    names = replace((reference or stages[0]).names, experiment=run.names.experiment, task=name)
    return names if reference else replace(names, model=name)
