"""YAML and JSON that may come from anyone, as plain values: nothing is resolved, expanded or built.

Only files are read, no pipes and devices, and none that is larger than what it is for; a link is followed only where
files are kept behind links, as in the cache of the Hugging Face hub.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import yaml  # type: ignore[import-untyped]
from omegaconf._utils import get_omega_conf_dumper, get_yaml_loader

from mate_cli.errors import MateError
from mate_cli.files.io_errors import shorten_reason, wrap_read_errors

MAX_SIZE, MAX_YAML = 1 << 26, 1 << 18
"""Bytes of a file that is read whole, and of one of YAML, which takes a second for a million of them."""
MAX_VALUES = 4_000_000
"""Values in a file of JSON, which need more memory than their letters."""
MAX_HEADER = 1 << 20
"""Bytes of the list of tensors of a safetensors file, which has about 100 for each of them."""
MAX_DEPTH = 60
"""Mappings and lists in one another."""
MAX_DIGITS = 300
PLAIN = (str, int, float, bool, type(None))


_OmegaConfLoader: Any = get_yaml_loader()  # reads 1e-4 as a number, and no key twice


class _Loader(yaml.cyaml.CParser, _OmegaConfLoader):
    """Read YAML as OmegaConf does, by the parser in C."""

    def __init__(self, text: str) -> None:
        yaml.cyaml.CParser.__init__(self, text)
        yaml.constructor.SafeConstructor.__init__(self)
        yaml.resolver.Resolver.__init__(self)


@contextmanager
def _parsing() -> Iterator[None]:
    """Raise `ValueError` for every error of a parser, so that no caller needs a list of their types."""
    try:
        yield
    except Exception as error:
        raise ValueError(shorten_reason(error)) from error


def _short_integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    """Return an integer; of many digits, or in base 60, its value would take longer than its text."""
    if len(node.value) > MAX_DIGITS:
        raise yaml.YAMLError(f"a number has more than {MAX_DIGITS} digits")
    return int(loader.construct_yaml_int(node))


_Loader.add_constructor("tag:yaml.org,2002:int", _short_integer)


@contextmanager
def open_file(path: Path, *, largest: int | None = None, links: bool = False) -> Iterator[BinaryIO]:
    """Open a file to read its bytes.

    Args:
        path: its place.
        largest: bytes that it may have.
        links: follow a link.

    Raises:
        OSError: it is missing, or is a link, pipe, device or folder.
        ValueError: it is larger.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError("it is a link") from error
        raise
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        os.close(number)
        raise OSError("it is not a regular file")
    with os.fdopen(number, "rb") as file:
        if largest is not None and status.st_size > largest:
            raise ValueError(f"it has more than {f'{largest >> 20} MB' if largest >> 20 else f'{largest >> 10} KB'}")
        yield file


def check_header(path: Path) -> None:
    """Raise `ValueError` if a safetensors file lists more tensors than any network has."""
    with open_file(path, links=True) as file:
        if int.from_bytes(file.read(8), "little") > MAX_HEADER:
            raise ValueError(f"its list of tensors has more than {MAX_HEADER >> 20} MB")


def read_bytes(path: Path, *, largest: int = MAX_SIZE, links: bool = False) -> bytes:
    """Read a whole file.

    Raises:
        OSError: see `open_file`.
        ValueError: it has more than `largest` bytes.
    """
    with open_file(path, largest=largest, links=links) as file:
        return file.read(largest)


def read_yaml(path: Path, kind: type[MateError], remedy: str, *, links: bool = False) -> dict[str, Any]:
    """Read a mapping from YAML; `${...}` stays the text that it is.

    Raises:
        MateError: of that kind; the file is missing, damaged, too large, or holds something else.
    """
    with wrap_read_errors(path, kind, "cannot be read", remedy):
        text = read_bytes(path, largest=MAX_YAML, links=links).decode("utf-8")
        return _mapping(parse_yaml(text), kind, path, remedy)


@_parsing()
def parse_yaml(text: str) -> Any:  # noqa: ANN401 - any value
    """Return the values of a YAML text; see `read_yaml`.

    Raises:
        ValueError: if it is damaged, has an alias or is nested too deep.
    """
    _check_events(text)
    return yaml.load(text, Loader=_Loader)


def load_json(path: Path, *, largest: int = MAX_SIZE, links: bool = False) -> Any:  # noqa: ANN401 - whatever it holds
    """Read JSON; NaN and infinities, which it has no word for, become None.

    Raises:
        OSError: see `open_file`.
        ValueError: it is damaged, or too large.
    """
    content = read_bytes(path, largest=largest, links=links)
    _check_values(content)
    with _parsing():
        return json.loads(content.decode("utf-8"), parse_constant=lambda word: None)


def _check_values(content: bytes) -> None:
    if sum(map(content.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values")


def read_object(
    path: Path,
    kind: type[MateError],
    remedy: str,
    problem: str = "not readable as JSON",
    *,
    largest: int = MAX_SIZE,
    links: bool = False,
) -> dict[str, Any]:
    """Read an object from JSON, see `load_json`.

    Raises:
        MateError: of that kind; the file is missing, damaged, too large, or holds something else.
    """
    with wrap_read_errors(path, kind, problem, remedy):
        return _mapping(load_json(path, largest=largest, links=links), kind, path, remedy, problem)


def read_lines(path: Path, largest: int = MAX_SIZE) -> Iterator[dict[str, Any]]:
    """Read the objects of JSON lines; a line that is none, as the last one of a process that was killed, is left out.

    Raises:
        OSError: see `open_file`.
        ValueError: the file has more than `largest` bytes.
    """
    content = read_bytes(path, largest=largest)
    _check_values(content)
    for line in content.split(b"\n"):
        if b"{" not in line:
            continue
        try:
            row = json.loads(line, parse_constant=lambda word: None)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def to_yaml(values: Mapping[str, Any]) -> str:
    """Write plain values as YAML, which `read_yaml` turns into the same."""
    return str(
        yaml.dump(
            dict(values), Dumper=get_omega_conf_dumper(), default_flow_style=False, allow_unicode=True, sort_keys=False
        )
    )


def to_json(value: object, indent: int | None = None) -> str:
    """Write plain values as JSON; NaN and infinities, which it has no word for, become null."""
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_without_nan(value), indent=indent, ensure_ascii=False)
    return f"{text}\n"


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _check_events(text: str) -> None:
    """Refuse aliases, of which ten lines can stand for more than any memory holds, and what is nested too deep.

    Raises:
        RecursionError: it is.
        yaml.YAMLError: there is an alias.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("YAML aliases are not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise RecursionError


def _mapping(
    values: object, kind: type[MateError], path: Path, remedy: str, problem: str = "cannot be read"
) -> dict[str, Any]:
    _check(values, MAX_DEPTH)
    if not isinstance(values, dict):
        raise kind(f"{problem}: it is not a mapping", where=str(path), remedy=remedy)
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
        raise ValueError(f"values of type {type(value).__name__} are not allowed")
