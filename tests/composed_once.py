"""Configurations that are composed of the same words, as tests do by the hundred, are composed by Hydra once."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import DictConfig

from mate_cli.cli.config_dir import config_dir

Composition = Callable[..., DictConfig]


def install() -> None:
    """Let Hydra remember what it composes of our own files, and of them alone: those of a test may change."""
    ConfigLoaderImpl.load_configuration = remembering(ConfigLoaderImpl.load_configuration)


def remembering(compose: Composition) -> Composition:
    """The composition, but with a copy of what was composed before in the same folder."""
    known: dict[tuple[object, ...], bytes] = {}  # nothing for the garbage collector to walk through
    ours = str(config_dir())

    def load_configuration(
        loader: ConfigLoaderImpl, config_name: str | None, overrides: Sequence[str], *how: object, **named: object
    ) -> DictConfig:
        folders = [source.path for source in loader.get_sources() if source.scheme() == "file"]
        if folders != [ours] or any("searchpath" in word for word in overrides):
            return compose(loader, config_name, overrides, *how, **named)
        key = (Path.cwd(), config_name, *overrides, *how, *named.items())
        if key not in known:
            known[key] = pickle.dumps(compose(loader, config_name, overrides, *how, **named))
        return pickle.loads(known[key])

    return load_configuration
