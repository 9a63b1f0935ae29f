"""`init=run:FOLDER`: initialize from a finished run or export, with its settings.

The override is expanded to ordinary overrides before composition, so that the new run records them. An export may be a
repository on the Hugging Face Hub.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mate_cli.cli.config.composition import compose_options, init_compose_api
from mate_cli.cli.config.validate import resolve_values
from mate_cli.cli.config_dir import find_config, list_options, read_config
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
    """Replace `init=run:FOLDER` by overrides with the weights and settings of the run FOLDER.

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
    section_names = ("model",) if is_other_task else ("model", "task", "encoding", "data")
    sections = [name for name in section_names if name not in override_keys]
    with init_compose_api():
        run_overrides = [*_experiment(names)] if "experiment" not in override_keys else []
        scale = get_override_value(map(Override.parse, names["overrides"]), "scale")
        if scale and not {"experiment", "scale"} & override_keys:
            run_overrides.append(Override("", "scale", scale))
        # An export contains only the name of its dataset.
        if "data" in sections and "_target_" not in values["data"]:
            sections.remove("data")
            run_overrides.append(Override("", "data", names["dataset"]))
        composed = _compose([*run_overrides, *other_overrides])
        for section in sections:
            if composed[section].get("_target_") != values[section]["_target_"]:
                run_overrides.append(_select_option(section, values[section]["_target_"], names))
        composed = _compose([*run_overrides, *other_overrides])
        run_overrides += _differences("", composed, {section: values[section] for section in sections})
        recorded = values["encoding"].get("reset_positions")
        if is_other_task and recorded not in (None, composed["encoding"].get("reset_positions", recorded)):
            run_overrides.append(Override("", "encoding.reset_positions", _text(recorded)))
    init = [f"init.checkpoint={_text(str(weights))}", f"init.tokenizer={_text(tokenizer)}"]
    return [*to_strings(run_overrides), "init=path", *init, *to_strings(other_overrides)]


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
    """Yield the override `experiment=NAME` that selects the experiment of a run.

    Yield no override if the experiment has no file.

    For a run with stages, this is the experiment of the recorded stage.

    Args:
        names: recorded names of the run, `origin` in its config.yaml.
    """
    experiment = str(names.get("experiment"))
    if experiment not in list_options("experiment"):
        return
    stages = compose_options([Override.parse(f"experiment={experiment}")]).config.stages
    stage = (stages or {}).get(names.get("stage") or "") or {}
    yield Override("", "experiment", str(stage.get("experiment", experiment)))


def _compose(overrides: Sequence[Override]) -> dict[str, Any]:
    values = [override for override in overrides if not override.is_below("hydra")]
    return resolve_values(compose_options(overrides).with_values(values).config)


def _select_option(group: str, target: str, names: Mapping[str, Any]) -> Override:
    """Return an override, such as `model=mate`, whose option has the class `target`.

    Args:
        group: config group.
        target: class of the group in the run.
        names: recorded names of the run. The recorded option is preferred.

    Raises:
        ConfigError: no option has the class.
    """
    preferred = str(names.get({"data": "dataset"}.get(group, group)))
    for option in sorted(list_options(group), key=lambda option: option != preferred):
        if read_config(find_config(f"{group}/{option}")).get("_target_") == target:
            return Override("", group, option)
    raise ConfigError(f"no file of conf/{group} has the class {target}", where=group, remedy=f"Set {group}=NAME")


def _differences(key: str, current: Mapping[str, Any], target: Mapping[str, Any]) -> Iterator[Override]:
    """Yield the overrides that give a configuration section the values of a run.

    Keys that are missing in `target` keep their current values.

    Args:
        key: dotted key of the section, "" for the whole configuration.
        current: composed values.
        target: values of the run.
    """
    for name, new_value in target.items():
        path, old_value = f"{key}.{name}" if key else name, current.get(name)
        if isinstance(old_value, Mapping) and isinstance(new_value, Mapping):
            yield from _differences(path, old_value, new_value)
        elif name not in current or old_value != new_value:
            yield Override("" if name in current else "+", path, _text(new_value))


def _text(value: Any) -> str:  # noqa: ANN401 - any value
    """Format a value for Hydra's override grammar.

    Texts are quoted only if necessary.
    """
    if isinstance(value, str):
        return value if re.fullmatch(r"[A-Za-z/][\w./:-]*", value) else quote_text(value)
    return write_value(value)
