"""Validation of a composed configuration: unknown keys, wrong types, values out of bounds.

Hydra itself accepts any key of an experiment file or after `+`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import json
import math
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from mate_cli.cli.config.hydra_errors import omegaconf_error
from mate_cli.cli.config.messages import unknown_key, validation_messages
from mate_cli.cli.config.schema import SCHEMAS
from mate_cli.cli.config.source_types import parameter_types
from mate_cli.errors import ConfigError
from mate_cli.files.targets import explain_missing, find_beside, find_targets
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
    refuse(plain_problems(values, command))
    refuse(target_problems(used_values))
    return SCHEMAS[command].model_validate_json(json.dumps(values))


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


def plain_problems(values: dict[str, Any], command: str) -> Iterator[str]:
    """Yield schema problems of a command's configuration, without importing its classes."""
    for key, value in flat_keys(values).items():
        if isinstance(value, float) and math.isinf(value):
            yield str(ConfigError(f"must be a finite number (got {value})", where=key))
    try:
        SCHEMAS[command].model_validate_json(json.dumps(values))
    except ValidationError as error:
        yield from validation_messages(error, values, schema=SCHEMAS[command])


def check_run_types(run: str, trust: Sequence[str] = ()) -> None:
    """Check the types of values in the configuration of a run and its stages.

    Raises:
        MateError: with the invalid key, or the missing part of the folder.
    """
    from mate_cli.runs.configuration import read_parts
    from mate_cli.runs.folders import open_run

    folder = open_run(run).path
    for path in (folder, *(file.parent for file in folder.glob("[!.]*/config.yaml"))):
        refuse(target_problems(read_parts(path, trust), quick=True))


def target_problems(value: object, path: str = "", *, quick: bool = False) -> Iterator[str]:
    """Yield the problems of all nodes with a `_target_`, at any depth.

    Args:
        value: node of the configuration.
        path: dotted key of the node.
        quick: check only types that the source of this package's classes declares, without imports.
    """
    if isinstance(value, dict):
        if value.get("_target_") is not None:
            yield from _node_problems(value, path, quick)
        for key, part in value.items():
            yield from target_problems(part, f"{path}.{key}" if path else str(key), quick=quick)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from target_problems(part, f"{path}.{index}", quick=quick)


def _node_problems(node: dict[str, Any], path: str, quick: bool) -> Iterator[str]:
    name = node["_target_"]
    if not isinstance(name, str):
        yield str(ConfigError("must be the name of a class", where=f"{path}._target_"))
        return
    try:
        hints = parameter_types(name) if quick else {}
        parameters = Parameters([*hints], hints, takes_any=True) if quick else Parameters.of(_import_target(name))
    except ConfigError as error:
        yield str(ConfigError(error.problem, where=f"{path}._target_"))
        return
    unknown = [key for key in node if key not in RESERVED and key not in parameters.names]
    if len(unknown) > 1 and not parameters.takes_any and not name.startswith("mate_cli."):
        # The unknown options belong to the class that the user replaced.
        problem = f"{name} has no {', '.join(unknown)}, which the class before it has"
        group, option = path.partition(".")[0], name.rpartition(".")[2].lower()
        hint = f"Write `_target_: {name}` and its options to conf/{group}/{option}.yaml, then type {group}={option}"
        yield str(ConfigError(problem, where=f"{path}._target_", remedy=hint))
        return
    for key, value in node.items():
        if key in RESERVED or (parameters.takes_any and key not in parameters.names):
            continue
        if key not in parameters.names:
            yield unknown_key(path, key, parameters.names)
        elif key in parameters.hints and not [*find_targets(value)]:
            if value is not None and not _can_be_written(parameters.hints[key]):
                yield str(ConfigError("is derived from other keys", where=f"{path}.{key}", remedy="Leave it out"))
            yield from _mismatches(parameters.hints[key], value, f"{path}.{key}")


def _import_target(name: str) -> Callable[..., object]:
    """Import the class or function of a `_target_`."""
    import pydoc

    find_beside([name])
    try:
        target = pydoc.locate(name)
    except pydoc.ErrorDuringImport as error:
        raise ConfigError(f"cannot import {name} ({error.value})") from error
    if target is None:
        raise ConfigError(explain_missing(name))
    if not callable(target):
        raise ConfigError(f"{name} is neither a class nor a function")
    return target


class Parameters(NamedTuple):
    """Parameters of a class or function.

    Args:
        names: names of the parameters.
        hints: types of the parameters.
        takes_any: whether any other name is accepted.
    """

    names: list[str]
    hints: dict[str, Any]
    takes_any: bool

    @classmethod
    def of(cls, target: Callable[..., object]) -> Parameters:
        """Read the signature of a class or function, including base classes for `**options`."""
        bases = [base for base in getattr(target, "__mro__", ()) if inspect.isfunction(vars(base).get("__init__"))]
        names: dict[str, None] = {}
        hints: dict[str, Any] = {}
        takes_any = True
        for callable_object in (target, *bases[1:]):
            if takes_any:
                parameters = inspect.signature(callable_object).parameters.values()
                names |= {p.name: None for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
                with contextlib.suppress(NameError):  # type imported only for type checking
                    is_plain = dataclasses.is_dataclass(callable_object) or not inspect.isclass(
                        callable_object
                    )  # dataclass or function
                    holder: Any = (
                        callable_object if is_plain else vars(callable_object).get("__init__", callable_object.__init__)
                    )
                    hints = typing.get_type_hints(holder, include_extras=True) | hints
                takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
        return cls([*names], hints, takes_any)


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


def _mismatches(hint: Any, value: object, place: str) -> Iterator[str]:  # noqa: ANN401 - any type at all
    try:
        # JSON mode accepts a list as a tuple and text as a path, but rejects "3" as a number, as YAML does.
        if adapter := _adapter(hint):
            adapter.validate_json(json.dumps(value))
    except ValidationError as error:
        yield from validation_messages(error, value, place)
