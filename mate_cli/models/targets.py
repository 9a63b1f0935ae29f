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

    Args:
        config: plain values.
        where: what it was read from, for the message.

    Raises:
        CheckpointError: naming the target.
    """
    for target in _targets(config):
        module, _, name = str(target).rpartition(".")
        if not module.startswith(PACKAGES) or not _is_class_of(module, name):
            raise CheckpointError(
                f"{target} is no part of mate that weights can come with",
                where=where,
                remedy="Only classes of mate_cli are built, as a configuration may come from anyone",
            )


def _targets(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from (part for key, part in value.items() if key == "_target_")
        value = list(value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from _targets(part)


def _is_class_of(module: str, name: str) -> bool:
    """Whether the module itself defines a class of this name; what it merely imports does not count."""
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return False
    return inspect.isclass(found) and found.__module__ == module
