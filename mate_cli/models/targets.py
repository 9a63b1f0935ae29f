"""What a configuration that came with weights may build: it may come from a stranger, so only our own parts."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence

from mate_cli.errors import CheckpointError

PACKAGES = ("mate_cli.attention.", "mate_cli.lit_modules.", "mate_cli.models.", "mate_cli.tokenization.")
"""Classes of these do nothing but compute."""


def check_targets(config: object, where: str) -> None:
    """Refuse a configuration with a `_target_`, at any depth, that is no class of `PACKAGES`.

    An interpolation could still become one when it is resolved, so there must be none.

    Args:
        config: plain values.
        where: what it was read from, for the message.

    Raises:
        CheckpointError: naming the target or interpolation.
    """
    for key, value in _leaves(config):
        if isinstance(value, str) and "${" in value:
            raise CheckpointError(f"{value} is an interpolation", where=where, remedy="Write its value instead")
        module, _, name = str(value).rpartition(".")
        if key == "_target_" and not (module.startswith(PACKAGES) and _is_class_of(module, name)):
            raise CheckpointError(
                f"{value} is no part of mate that weights can come with",
                where=where,
                remedy="Only classes of mate_cli are built, as a configuration may come from anyone",
            )


def _leaves(value: object, key: object = None) -> Iterator[tuple[object, object]]:
    """Every value that is no collection, with the key that it, or the list that it is in, has."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _leaves(part, name)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from _leaves(part, key)
    else:
        yield key, value


def _is_class_of(module: str, name: str) -> bool:
    """Whether the module itself defines a class of this name; what it merely imports does not count."""
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return False
    return inspect.isclass(found) and found.__module__ == module
