"""Safe reading of untrusted YAML and JSON, without interpolation or instantiation.

Only regular files below a size limit are read, no pipes or devices. Symbolic links are followed only on request, as for
the cache of the Hugging Face Hub, which consists of links.
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
from mate_cli.files.io_errors import wrap_file_errors

MAX_SIZE, MAX_YAML = 1 << 26, 1 << 18
"""Maximum bytes of a file, and of a YAML file. Parsing YAML takes about a second per million bytes."""
MAX_VALUES = 4_000_000
"""Maximum values of a JSON file. Parsed values need more memory than their text."""
MAX_HEADER = 1 << 20
"""Maximum bytes of the header of a safetensors file, which has about 100 bytes per tensor."""
MAX_DEPTH = 60
"""Maximum nesting depth of mappings and lists."""
MAX_DIGITS = 300
PLAIN = (str, int, float, bool, type(None))


# OmegaConf's loader reads 1e-4 as a number and rejects duplicate keys.
_OmegaConfLoader: Any = get_yaml_loader()


class _Loader(yaml.cyaml.CParser, _OmegaConfLoader):
    """OmegaConf's YAML loader, based on the fast C parser of PyYAML."""

    def __init__(self, text: str) -> None:
        yaml.cyaml.CParser.__init__(self, text)
        yaml.constructor.SafeConstructor.__init__(self)
        yaml.resolver.Resolver.__init__(self)


def _short_integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    """Construct an integer of a YAML file, unless its text is too long.

    Long text is rejected, because its conversion is slow.
    """
    if len(node.value) > MAX_DIGITS:
        raise yaml.YAMLError(f"a number has more than {MAX_DIGITS} digits")
    return int(loader.construct_yaml_int(node))


_Loader.add_constructor("tag:yaml.org,2002:int", _short_integer)


@contextmanager
def open_file(path: Path, *, largest: int | None = None, links: bool = False) -> Iterator[BinaryIO]:
    """Open a regular file to read its bytes.

    Args:
        path: path of the file.
        largest: maximum size in bytes. None for no limit.
        links: whether to follow symbolic links.

    Raises:
        OSError: the file is missing, or is a symbolic link, pipe, device or folder.
        ValueError: the file is larger than `largest`.
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
    """Raise `ValueError` if the header of a safetensors file has more than `MAX_HEADER` bytes."""
    with open_file(path, links=True) as file:
        if int.from_bytes(file.read(8), "little") > MAX_HEADER:
            raise ValueError(f"its list of tensors has more than {MAX_HEADER >> 20} MB")


def read_bytes(path: Path, *, largest: int = MAX_SIZE, links: bool = False) -> bytes:
    """Read all bytes of a regular file.

    Args:
        path: path of the file.
        largest: maximum size in bytes.
        links: whether to follow symbolic links.

    Raises:
        OSError: see `open_file`.
        ValueError: the file has more than `largest` bytes.
    """
    with open_file(path, largest=largest, links=links) as file:
        return file.read(largest)


def read_yaml(path: Path, kind: type[MateError], remedy: str, *, links: bool = False) -> dict[str, Any]:
    """Read a mapping from a YAML file.

    Interpolations `${...}` stay text.

    Args:
        path: path of the file.
        kind: class of the raised error.
        remedy: hint in the error message.
        links: follow symbolic links.

    Raises:
        MateError: an error of class `kind`: the file is missing, damaged, too large, or not a mapping.
    """
    with wrap_file_errors(path, kind, "cannot be read", remedy):
        text = read_bytes(path, largest=MAX_YAML, links=links).decode("utf-8")
        return _mapping(parse_yaml(text))


def parse_yaml(text: str) -> Any:  # noqa: ANN401 - any value
    """Return the values of a YAML text.

    Interpolations `${...}` stay text.

    Raises:
        Exception: the text is invalid, has an alias or is nested too deeply.
    """
    _check_events(text)
    return yaml.load(text, Loader=_Loader)


def load_json(path: Path, *, largest: int = MAX_SIZE, links: bool = False) -> Any:  # noqa: ANN401 - whatever it holds
    """Read a JSON file, with None instead of NaN and infinities.

    NaN and infinities are not valid JSON.

    Args:
        path: path of the file.
        largest: maximum size in bytes.
        links: follow symbolic links.

    Raises:
        OSError: see `open_file`.
        ValueError: the file is damaged or too large.
        RecursionError: the file is nested too deeply.
    """
    content = read_bytes(path, largest=largest, links=links)
    _check_values(content)
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
    """Read a JSON file that contains an object, and convert any failure to a `MateError`.

    Args:
        path: path of the file.
        kind: class of the raised error.
        remedy: hint in the error message.
        problem: fault in the error message.
        largest: maximum size in bytes.
        links: follow symbolic links.

    Raises:
        MateError: an error of class `kind`: the file is missing, damaged, too large, or not an object.
    """
    with wrap_file_errors(path, kind, problem, remedy):
        return _mapping(load_json(path, largest=largest, links=links))


def read_lines(path: Path, largest: int = MAX_SIZE) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON Lines file.

    Invalid lines, such as a truncated last line, are skipped.

    Args:
        path: path of the file.
        largest: maximum size in bytes.

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
    """Serialize values as YAML, such that `read_yaml` restores the same values.

    The values must be JSON-serializable.
    """
    dumper = get_omega_conf_dumper()
    return str(yaml.dump(dict(values), Dumper=dumper, default_flow_style=False, allow_unicode=True, sort_keys=False))


def to_json(value: object, indent: int | None = None) -> str:
    """Serialize values as JSON with a final newline.

    NaN and infinities become null.
    """
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_without_nan(value), indent=indent, ensure_ascii=False)
    return f"{text}\n"


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _check_events(text: str) -> None:
    """Reject YAML aliases and deep nesting.

    Ten lines of nested aliases can expand beyond any memory.

    Raises:
        RecursionError: the text is nested deeper than `MAX_DEPTH`.
        yaml.YAMLError: the text has an alias.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("YAML aliases are not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise RecursionError


def _mapping(values: object) -> dict[str, Any]:
    _check(values, MAX_DEPTH)
    if not isinstance(values, dict):
        raise ValueError("it is not a mapping")
    return {str(key): value for key, value in values.items()}


def _check(value: object, depth: int) -> None:
    """Reject values that are nested too deeply, or that JSON lacks, such as dates and sets."""
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
