"""`init=run:FOLDER`: initialize from a finished run or export, with its settings.

The override is expanded to ordinary overrides before composition, so that the new run records them. An export may be a
repository on the Hugging Face Hub.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mate_cli.cli.config.composition import Composition, compose_options, composing
from mate_cli.cli.config.validate import resolve_values
from mate_cli.cli.config_dir import choices, find_config, read_config
from mate_cli.cli.overrides import Override, get_override_value, to_strings
from mate_cli.errors import CheckpointError, ConfigError, RunError
from mate_cli.files.hub import hub_file
from mate_cli.files.renamed import rename_targets
from mate_cli.files.safe_load import read_yaml
from mate_cli.files.targets import check_targets
from mate_cli.quoting import quote_text, write_value
from mate_cli.runs.configuration import ORIGIN, load_config
from mate_cli.runs.folders import open_run
from mate_cli.runs.record import RunFolder

CONTINUED = "init=run:"
"""Prefix of the override `init=run:FOLDER`."""
EXPORT = "mate.yaml"
WEIGHTS = ("best.safetensors", "final.safetensors")


def expand_continued(arguments: Sequence[str]) -> list[str]:
    """Replace `init=run:FOLDER` by overrides that load the weights and settings of that run.

    The settings are experiment, scale, model, task, encoding and data. Other overrides take precedence. If they set
    another experiment or task, only the model and `encoding.reset_positions` are taken from the run. Arguments without
    the override are returned unchanged.

    Raises:
        ConfigError: if the run's experiment cannot be composed, or the folder is neither a run nor an export.
    """
    override = next((override for override in arguments if override.startswith(CONTINUED)), None)
    if override is None:
        return [*arguments]
    other_overrides = [Override.parse(argument) for argument in arguments if argument != override]
    override_keys = {argument.group or argument.key for argument in other_overrides}
    trust = get_override_value(other_overrides, "trust")
    values, weights, tokenizer = _read_source(override.removeprefix(CONTINUED), [trust] if trust else [])
    names = values[ORIGIN]
    is_other_task = bool({"experiment", "task"} & override_keys)
    sections = ["model", *([] if is_other_task else ["task", "encoding", "data"])]
    with composing():
        run_overrides = [*_experiment(names)] if "experiment" not in override_keys else []
        scale = get_override_value(map(Override.parse, names["overrides"]), "scale")
        if scale and not {"experiment", "scale"} & override_keys:
            run_overrides.append(Override("", "scale", scale))
        for section in sections:
            # An export contains only the name of its dataset.
            if section == "data" and "_target_" not in values[section]:
                run_overrides += [Override("", "data", names["dataset"])] if "data" not in override_keys else []
            elif section not in override_keys:
                run_overrides += _select_option(section, values[section], names, [*run_overrides, *other_overrides])
                composed = _compose([*run_overrides, *other_overrides])[section]
                run_overrides += _differences(section, composed, values[section])
        if is_other_task:
            encoding = _compose([*run_overrides, *other_overrides])["encoding"]
            recorded = values["encoding"].get("reset_positions")
            if recorded not in (None, encoding.get("reset_positions", recorded)):
                run_overrides.append(Override("", "encoding.reset_positions", _text(recorded)))
    init = [("init", "path"), ("init.checkpoint", _text(str(weights))), ("init.tokenizer", _text(tokenizer))]
    return [*to_strings(run_overrides), *(f"{key}={value}" for key, value in init), *to_strings(other_overrides)]


def _read_source(name: str, trust: Sequence[str]) -> tuple[Mapping[str, Any], Path, str]:
    """Read the settings of a finished run or an export, and locate its weights and tokenizer.

    Args:
        name: run folder, export folder, or repository on the Hugging Face Hub.
        trust: `trust=` values from the command line.

    Raises:
        CheckpointError: if an export is damaged or was written by an earlier version.
        RunError: if the run does not exist, or has no weights.

    Returns:
        The settings by section, the file or folder of the weights, and the tokenizer.
    """
    folder = Path(name).expanduser()
    if not folder.exists() and hub_file(name, EXPORT):
        from mate_cli.pipelines.inference.checkpoint import find_checkpoint

        # The download includes weights and vocabulary.
        folder = find_checkpoint(name)
    if (exported := folder / EXPORT).is_file():
        values = rename_targets(read_yaml(exported, CheckpointError, "Export it again", links=True))
        check_targets({key: values.get(key) for key in ("model", "task", "encoding")}, str(exported), trust)
        if not isinstance(values.get(ORIGIN), dict):
            raise CheckpointError("does not name its experiment", where=str(exported), remedy="Export the run again")
        return values, folder.absolute(), str(folder.absolute())
    run: RunFolder = open_run(name, "init=run")
    origin = read_yaml(run.path / "config.yaml", RunError, "Give a folder below outputs/").get(ORIGIN)
    weights = next((file for file in (run.checkpoints / name for name in WEIGHTS) if file.is_file()), None)
    if weights is None or not isinstance(origin, dict):
        stage_folders = [part.parent for part in run.path.glob("*/config.yaml")]
        hint = f"Use {CONTINUED}{stage_folders[0]}" if stage_folders else "Train it, or resume it, to the end"
        raise RunError("this run has no weights", where=str(run.path), remedy=hint)
    config = load_config(run.path, trust)
    return {**config.model_dump(), ORIGIN: origin}, weights.absolute(), config.tokenizer


def _experiment(names: Mapping[str, Any]) -> Iterator[Override]:
    """Yield `experiment=NAME` for the experiment of a run, unless that experiment has no file.

    For a run with stages, this is the experiment of the recorded stage.

    Args:
        names: recorded names of the run, `origin` in its config.yaml.
    """
    experiment = str(names.get("experiment"))
    if experiment not in choices("experiment"):
        return
    stages = compose_options([Override.parse(f"experiment={experiment}")]).config.stages
    stage = (stages or {}).get(names.get("stage") or "") or {}
    yield Override("", "experiment", str(stage.get("experiment", experiment)))


def _compose(overrides: Sequence[Override]) -> dict[str, Any]:
    values = [override for override in overrides if not override.is_below("hydra")]
    composed: Composition = compose_options(overrides).with_values(values)
    return resolve_values(composed.config)


def _select_option(
    group: str, values: Mapping[str, Any], names: Mapping[str, Any], overrides: Sequence[Override]
) -> list[Override]:
    """Return the override that selects a config group option with the same class as a run.

    Return [] if the overrides already select an option with this class.

    Args:
        group: config group.
        values: values of the group in the run, with `_target_`.
        names: recorded names of the run. The recorded option is preferred.
        overrides: overrides so far.
    """
    target = values["_target_"]
    if _compose(overrides)[group].get("_target_") == target:
        return []
    preferred = str(names.get({"data": "dataset"}.get(group, group)))
    for option in sorted(choices(group), key=lambda option: option != preferred):
        if read_config(find_config(f"{group}/{option}")).get("_target_") == target:
            return [Override("", group, option)]
    raise ConfigError(f"no file of conf/{group} has the class {target}", where=group, remedy=f"Set {group}=NAME")


def _differences(key: str, current: Mapping[str, Any], target: Mapping[str, Any]) -> Iterator[Override]:
    """Yield the overrides that change a config section from its `current` to its `target` values.

    Keys that are missing in `target` keep their current values.

    Args:
        key: dotted key of the section.
        current: composed values.
        target: values of the run.
    """
    for name, new_value in target.items():
        path, old_value = f"{key}.{name}", current.get(name)
        if isinstance(old_value, Mapping) and isinstance(new_value, Mapping):
            yield from _differences(path, old_value, new_value)
        elif name not in current or old_value != new_value:
            yield Override("" if name in current else "+", path, _text(new_value))


def _text(value: Any) -> str:  # noqa: ANN401 - any value
    """Format a value for Hydra's override grammar. Texts are quoted only if necessary."""
    if isinstance(value, str):
        return value if re.fullmatch(r"[A-Za-z/][\w./:-]*", value) else quote_text(value)
    return write_value(value)
