"""Validation of a composed configuration: unknown keys, wrong types, values out of bounds.

Hydra itself accepts any key of an experiment file or after `+`.
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
"""`${on_data:wtq,0.66,null}`: the value for one dataset (0.66 on wtq), and the value for all other datasets (null)."""
ROWS = "rows"
"""Key of a sweep's file in addition to Hydra's settings. Jobs do not have it."""


def validate(config: DictConfig, command: str = "train") -> Any:  # noqa: ANN401 - the command's own section
    """Validate a configuration against its schema, and `_target_` nodes against their classes.

    Args:
        config: composed configuration.
        command: command of the configuration.

    Returns:
        The typed configuration, an instance of the class in `SCHEMAS`.

    Raises:
        ConfigError: with one line per problem, each with key, value and hint.
    """
    values = resolve_values(config)
    if command == "evaluate" and "_target_" in values["data"] and values["data"].get("root") is None:
        values["data"].pop("root", None)  # use the default root of the dataset, if any
    unused_sections = (
        {"logger"} if command == "compare" and not values.get("wandb") else set()
    )  # Lightning is slow to import
    used_values = {name: value for name, value in values.items() if name not in unused_sections}
    section, problems = check_values(values, command)
    refuse(problems)
    refuse(target_problems(used_values))
    return section


def refuse(problems: Iterable[str], stage: str = "") -> None:
    """Raise `ConfigError` with one line per problem, if there are any.

    Raises:
        ConfigError: if there are any, with a line per problem.
    """
    if lines := list(problems):
        raise ConfigError("\n       ".join(lines), where=f"stages.{stage}" if stage else None)


def resolve_values(config: DictConfig) -> dict[str, Any]:
    """Return the resolved configuration as containers, without Hydra's and the sweep's keys.

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
    """Validate a command's values against its schema, without importing the classes of nodes with a `_target_`.

    Returns:
        The typed configuration (None if a value has the wrong type or is out of bounds), and a line per problem.
    """
    infinite = {key: value for key, value in flat_keys(values).items() if value in (math.inf, -math.inf)}
    problems = [str(ConfigError(f"must be a finite number (got {infinite[key]})", where=key)) for key in infinite]
    try:
        return SCHEMAS[command].model_validate(values), problems
    except ValidationError as error:
        return None, [*problems, *validation_messages(error, values, schema=SCHEMAS[command])]


def check_run_types(run: str, trust: Sequence[str] = ()) -> None:
    """Check the types of values in the configuration of a run and its stages.

    Raises:
        MateError: with the invalid key, or the missing part of the folder.
    """
    from mate_cli.runs.configuration import read_parts
    from mate_cli.runs.folders import open_run

    folder = open_run(run).path
    for path in (folder, *(file.parent for file in folder.glob("[!.]*/config.yaml"))):
        refuse(target_problems(read_parts(path, trust), options_of=_read_types))


def _read_types(name: str) -> ClassOptions:
    """Read the options of a class, which may have lost other options since a run was trained."""
    return read_options(name)._replace(takes_any=True)


def target_problems(
    value: object, path: str = "", *, options_of: Callable[[str], ClassOptions] = load_options
) -> Iterator[str]:
    """Yield the problems of all nodes with a `_target_`, at any depth.

    Args:
        value: node of the configuration.
        path: dotted key of the node.
        options_of: function that returns the options of a class by name. `read_options` imports nothing, and knows
            only the classes of this package.
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
    """Return the pydantic adapter of a type, None if JSON values cannot have that type."""
    for config in (ConfigDict(strict=True), None):  # dataclasses and models allow no config
        with contextlib.suppress(PydanticUserError, PydanticUndefinedAnnotation):
            return TypeAdapter(hint, config=config)
    return None


def _can_be_written(hint: Any) -> bool:  # noqa: ANN401 - any type at all
    """Return whether YAML can express a value of this type, or of one member of a union."""
    parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else ()
    return _adapter(hint) is not None or any(map(_can_be_written, {*parts} - {types.NoneType}))


def _mismatches(hint: Any, value: object, path: str) -> Iterator[str]:  # noqa: ANN401 - any type at all
    try:
        # JSON mode accepts a list as a tuple and text as a path, but rejects "3" as a number, as YAML does.
        if adapter := _adapter(hint):
            adapter.validate_json(json.dumps(value))
    except ValidationError as error:
        yield from validation_messages(error, value, path)
