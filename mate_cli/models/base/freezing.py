"""Parameters of a network that learn nothing, chosen by names and patterns of names."""

import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from torch import nn

from mate_cli.errors import ConfigError


def freeze(network: nn.Module, patterns: str | Sequence[str] | None) -> None:
    """Train nothing in the parameters that a pattern matches; dropout stays as it is.

    Raises:
        ConfigError: a pattern matches nothing.
    """
    if patterns is None:
        return
    parameters = dict(network.named_parameters())
    for name in match_names(parameters, patterns, "model.freeze"):
        parameters[name].requires_grad_(False)


def match_names(names: Iterable[str], patterns: str | Sequence[str], where: str, *, parts: bool = True) -> list[str]:
    """Find the names that one of the patterns of a shell (`*`, `?`, `[0-3]`) matches, in their order.

    Args:
        names: with dots between their parts.
        patterns: one or several.
        where: the key that they were typed for.
        parts: a pattern may also match the first parts of a name, as those of a module.

    Raises:
        ConfigError: a pattern matches nothing; with the nearest names.
    """
    every = {name: _beginnings(name) if parts else [name] for name in names}
    result = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        matched = {name for name, prefixes in every.items() if any(fnmatchcase(prefix, pattern) for prefix in prefixes)}
        if not matched:
            known = list(dict.fromkeys(prefix for prefixes in every.values() for prefix in prefixes))
            near = difflib.get_close_matches(pattern, known, 3, cutoff=0.3) or known[:3]
            raise ConfigError(f"{pattern!r} matches no parameter", where=where, remedy=f"Near: {', '.join(near)}")
        result |= matched
    return [name for name in every if name in result]


def _beginnings(name: str) -> list[str]:
    """Return the name of a parameter, and before it those of the modules that it is in."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
