"""YAML and JSON that may come from anyone, as plain values: nothing is resolved, expanded or built."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf._utils import get_omega_conf_dumper, get_yaml_loader

from mate_cli.errors import MateError
from mate_cli.files.door import reading

LARGEST = 1 << 26
"""Bytes of a file that is read whole."""
DEEPEST = 60
"""Mappings and lists in one another."""
PLAIN = (str, int, float, bool, type(None))


_OmegaConfLoader: Any = get_yaml_loader()  # reads 1e-4 as a number, and no key twice


class _Loader(_OmegaConfLoader):
    """What OmegaConf reads, but for aliases: ten lines of them can stand for more than any memory holds."""

    def compose_node(self, parent: object, index: object) -> object:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias, which no configuration needs")
        return super().compose_node(parent, index)


def read_yaml(path: Path, kind: type[MateError], remedy: str) -> dict[str, Any]:
    """Read a mapping from YAML; `${...}` stays the text that it is.

    Raises:
        MateError: of that kind; the file is missing, damaged, or holds something else.
    """
    with reading(path, kind, "cannot be read", remedy):
        return _mapping(yaml.load(_text(path), Loader=_Loader), kind, path, remedy)


def read_object(
    path: Path, kind: type[MateError], remedy: str, problem: str = "not readable as JSON"
) -> dict[str, Any]:
    """Read an object from JSON.

    Raises:
        MateError: of that kind; the file is missing, damaged, or holds something else.
    """
    with reading(path, kind, problem, remedy):
        return _mapping(json.loads(_text(path)), kind, path, remedy, problem)


def to_yaml(values: Mapping[str, Any]) -> str:
    """Plain values as YAML, which `read_yaml` turns into the same."""
    return str(
        yaml.dump(
            dict(values), Dumper=get_omega_conf_dumper(), default_flow_style=False, allow_unicode=True, sort_keys=False
        )
    )


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it has more than {LARGEST >> 20} MB")
    return content.decode("utf-8")


def _mapping(
    values: object, kind: type[MateError], path: Path, remedy: str, problem: str = "cannot be read"
) -> dict[str, Any]:
    _check(values, DEEPEST)
    if not isinstance(values, dict):
        raise kind(f"{problem}: it holds no mapping", where=str(path), remedy=remedy)
    return {str(key): value for key, value in values.items()}


def _check(value: object, depth: int) -> None:
    """Refuse what is nested too deep, and values that JSON has no word for, such as the dates and sets of YAML."""
    if not depth:
        raise RecursionError
    if isinstance(value, dict):
        for key, part in value.items():
            _check(key, 1)
            _check(part, depth - 1)
    elif isinstance(value, list):
        for part in value:
            _check(part, depth - 1)
    elif not isinstance(value, PLAIN):
        raise ValueError(f"a value of type {type(value).__name__}")
