"""Validate a composed configuration: unknown keys, wrong types and values out of bounds.

Hydra itself does not check the keys of an experiment file, keys after `+`, and the types of values.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from mate_cli.cli.config.class_options import ClassOptions, load_options, read_options
from mate_cli.cli.config.hydra_errors import omegaconf_error
from mate_cli.cli.config.messages import unknown_key, validation_messages
from mate_cli.cli.config.schema import SCHEMAS
from mate_cli.errors import ConfigError
from mate_cli.files.targets import find_targets
from mate_cli.runs.identity import flat_keys

RESERVED = {"_target_", "_args_", "_partial_", "_recursive_", "_convert_"}
"""Keys that Hydra reserves in a node with a `_target_`."""
OmegaConf.register_new_resolver(
    "on_data", lambda name, value, other, *, _root_: value if _root_.data.get("name") == name else other, replace=True
)
"""Resolver of `${on_data:wtq,0.66,null}`: a value for one dataset (0.66 for wtq), another for the rest (null)."""
ROWS = "rows"
"""Key of a sweep file that lists overrides of jobs. The configuration of a job does not contain it."""


def validate(config: DictConfig, command: str = "train") -> Any:  # noqa: ANN401 - the command's own section
    """Validate a configuration against its command's schema and its `_target_` classes.

    Args:
        config: composed configuration.
        command: command of the configuration.

    Returns:
        The validated configuration, an instance of the command's class in `SCHEMAS`.

    Raises:
        ConfigError: values are invalid. The message has a line per problem, with key, value and hint.
    """
    values = resolve_values(config)
    if command == "evaluate" and "_target_" in values["data"] and values["data"].get("root") is None:
        # Use the default root of the dataset, if any.
        values["data"].pop("root", None)
    # Lightning, which the loggers import, is slow to import.
    skips_loggers = command == "compare" and not values.get("wandb")
    used_values = {name: value for name, value in values.items() if name != "logger" or not skips_loggers}
    section, problems = check_values(values, command)
    refuse(problems)
    refuse(target_problems(used_values))
    return section


def refuse(problems: Iterable[str], stage: str = "") -> None:
    """Raise one `ConfigError` that lists all given problems, if there are any.

    Args:
        problems: error messages.
        stage: name of the stage with the problems, "" for a run without stages.

    Raises:
        ConfigError: if `problems` is not empty.
    """
    if lines := list(problems):
        raise ConfigError("\n       ".join(lines), where=f"stages.{stage}" if stage else None)


def resolve_values(config: DictConfig) -> dict[str, Any]:
    """Return the configuration as nested dicts and lists, with interpolations resolved.

    The sections of Hydra and of sweeps are removed.

    Raises:
        ConfigError: if a mandatory value is missing, or an interpolation cannot be resolved.
    """
    job = OmegaConf.masked_copy(config, [str(key) for key in config if key not in ("hydra", ROWS)])
    try:
        if missing_keys := sorted(OmegaConf.missing_keys(job)):
            raise ConfigError("needs a value", where=missing_keys[0], remedy=f"Set it with {missing_keys[0]}=...")
        return typing.cast(dict[str, Any], OmegaConf.to_container(job, resolve=True, throw_on_missing=True))
    except OmegaConfBaseException as error:
        raise omegaconf_error(error) from error


def check_values(values: dict[str, Any], command: str) -> tuple[Any, list[str]]:
    """Validate the values of a configuration against the schema of a command.

    Nodes with a `_target_` are not validated.

    Args:
        values: configuration as nested dicts and lists.
        command: command of the configuration.

    Returns:
        The validated configuration (None if pydantic rejects a value), and the error messages.
    """
    infinite = {key: value for key, value in flat_keys(values).items() if value in (math.inf, -math.inf)}
    problems = [str(ConfigError(f"must be a finite number (got {infinite[key]})", where=key)) for key in infinite]
    try:
        return SCHEMAS[command].model_validate(values), problems
    except ValidationError as error:
        return None, [*problems, *validation_messages(error, values, schema=SCHEMAS[command])]


def check_run_types(run: str, trust: Sequence[str] = ()) -> None:
    """Check the types of all values in the configuration of a finished run and its stages.

    Does not import torch.

    Args:
        run: run folder.
        trust: trusted modules, from `trust=` on the command line.

    Raises:
        MateError: a value is invalid, or the folder contains no complete run.
    """
    from mate_cli.runs.configuration import read_parts
    from mate_cli.runs.folders import open_run

    folder = open_run(run).path
    for path in (folder, *(file.parent for file in folder.glob("[!.]*/config.yaml"))):
        refuse(target_problems(read_parts(path, trust), options_of=_read_types))


def _read_types(name: str) -> ClassOptions:
    """Return the constructor options of a class, for the configuration of an earlier version.

    Options with unknown names are accepted, because a class may have lost options since the run was trained.
    """
    return read_options(name)._replace(takes_any=True)


def target_problems(
    value: object, path: str = "", *, options_of: Callable[[str], ClassOptions] = load_options
) -> Iterator[str]:
    """Yield error messages about invalid options of the classes in a configuration.

    Args:
        value: configuration, or a node of it. Nodes at any depth are validated.
        path: dotted key of the node, "" for the whole configuration.
        options_of: function that returns the options of a class by dotted path. `load_options` imports the class.
            `read_options` imports nothing, but knows only the classes of this package.
    """
    if isinstance(value, dict):
        if value.get("_target_") is not None:
            yield from _node_problems(value, path, options_of)
        for key, part in value.items():
            yield from target_problems(part, f"{path}.{key}" if path else str(key), options_of=options_of)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from target_problems(part, f"{path}.{index}", options_of=options_of)


def _node_problems(node: dict[str, Any], path: str, options_of: Callable[[str], ClassOptions]) -> Iterator[str]:
    name = node["_target_"]
    if not isinstance(name, str):
        yield str(ConfigError("must be the name of a class", where=f"{path}._target_"))
        return
    try:
        options = options_of(name)
    except ConfigError as error:
        yield str(ConfigError(error.problem, where=f"{path}._target_"))
        return
    unknown = [key for key in node if key not in RESERVED and key not in options.names]
    if len(unknown) > 1 and not options.takes_any and not name.startswith("mate_cli."):
        # The unknown options belong to the class that the user replaced.
        problem = f"{name} has no {', '.join(unknown)}, which the class before it has"
        group, option = path.partition(".")[0], name.rpartition(".")[2].lower()
        hint = f"Write `_target_: {name}` and its options to conf/{group}/{option}.yaml, then type {group}={option}"
        yield str(ConfigError(problem, where=f"{path}._target_", remedy=hint))
        return
    for key, value in node.items():
        if key in RESERVED or (options.takes_any and key not in options.names):
            continue
        if key not in options.names:
            yield unknown_key(path, key, options.names)
        elif key in options.hints and not [*find_targets(value)]:
            if value is not None and not _can_be_written(options.hints[key]):
                yield str(ConfigError("is derived from other keys", where=f"{path}.{key}", remedy="Leave it out"))
            yield from _mismatches(options.hints[key], value, f"{path}.{key}")


@functools.cache
def _adapter(hint: Any) -> TypeAdapter[Any] | None:  # noqa: ANN401 - any type at all
    """Return a pydantic validator for a type, or None if pydantic lacks support for the type."""
    for config in (ConfigDict(strict=True), None):  # dataclasses and models allow no config
        with contextlib.suppress(PydanticUserError, PydanticUndefinedAnnotation):
            return TypeAdapter(hint, config=config)
    return None


def _can_be_written(hint: Any) -> bool:  # noqa: ANN401 - any type at all
    """Return whether values of a type can be written in YAML.

    For a union, one member (except None) whose values can be written suffices.
    """
    parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else ()
    return _adapter(hint) is not None or any(map(_can_be_written, {*parts} - {types.NoneType}))


def _mismatches(hint: Any, value: object, path: str) -> Iterator[str]:  # noqa: ANN401 - any type at all
    try:
        # JSON mode accepts a list as a tuple and text as a path, but rejects "3" as a number, as YAML does.
        if adapter := _adapter(hint):
            adapter.validate_json(json.dumps(value))
    except ValidationError as error:
        yield from validation_messages(error, value, path)
