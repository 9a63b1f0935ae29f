"""The attention backends and networks that a configuration can name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from hydra.utils import instantiate

from mate_cli.attention.base import AttentionBackend
from mate_cli.errors import ConfigError
from mate_cli.models.table_encoder import TableEncoder


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


def find_network(name: str, attention: AttentionBackend, length: int, **options: Any) -> TableEncoder:  # noqa: ANN401
    """Make the network of `conf/model` that has this name; Hydra must be at work.

    Args:
        name: one of `known_networks`.
        attention: how it is computed.
        length: tokens of its longest input.
        **options: in place of what the file says.
    """
    words = [f"+model={name}", f"+encoding.max_tokens={length}"]
    make = instantiate(compose("benchmark", words).model, _partial_=True)
    network: TableEncoder = make(attention=attention, **options)
    return network


def known_networks() -> list[str]:
    """The names in `conf/model`, a folder of the user's own included."""
    return sorted(GlobalHydra.instance().config_loader().get_group_options("model"))
