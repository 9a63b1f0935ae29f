"""The attention backends that a configuration can name."""

from __future__ import annotations

from collections.abc import Sequence

from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from hydra.utils import instantiate

from mate_cli.attention.base import AttentionBackend
from mate_cli.errors import ConfigError


def find_backends(names: Sequence[str]) -> dict[str, AttentionBackend]:
    """Make the backends of `conf/attention` that have these names; Hydra must be at work.

    Raises:
        ConfigError: there is none of a name.
    """
    known = known_backends()
    for name in names:
        if name not in known:
            raise ConfigError(
                f"no attention is called {name!r}", where="benchmark", remedy=f"Choose from {', '.join(known)}"
            )
    return {name: instantiate(compose("benchmark", [f"+attention={name}"]).attention) for name in names}


def known_backends() -> list[str]:
    """The names in `conf/attention`, a folder of the user's own included."""
    return sorted(GlobalHydra.instance().config_loader().get_group_options("attention"))
