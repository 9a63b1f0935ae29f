"""Cache of composed configurations.

Each set of overrides is composed once per test run, and each YAML file is read once.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.utils import JobRuntime
from omegaconf import DictConfig, read_write

from mate_cli.cli.config_dir import config_dir

Composition = Callable[..., DictConfig]


def install(folder: Path) -> None:
    """Cache Hydra's compositions of the shipped `conf/` in `folder`.

    All processes of a test run share the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ConfigLoaderImpl.load_configuration = remember_compositions(ConfigLoaderImpl.load_configuration, folder)
    FileConfigSource.load_config = remember_files(FileConfigSource.load_config)


def remember_compositions(compose: Composition, folder: Path) -> Composition:
    """Cache compositions. A cached result only differs in the working directory."""
    shipped = str(config_dir())

    def load_configuration(
        loader: ConfigLoaderImpl, config_name: str | None, overrides: Sequence[str], *how: object, **named: object
    ) -> DictConfig:
        folders = [source.path for source in loader.get_sources() if source.scheme() == "file"]
        if folders != [shipped] or any("searchpath" in override for override in overrides):
            return compose(loader, config_name, overrides, *how, **named)
        key = repr((config_name, [*overrides], how, sorted(named.items()), JobRuntime().get("name")))
        file = folder / hashlib.sha256(key.encode()).hexdigest()
        if not file.exists():
            config = compose(loader, config_name, overrides, *how, **named)
            draft = folder / f"{file.name}.{os.getpid()}"
            draft.write_bytes(pickle.dumps(config))
            draft.replace(file)
        config = pickle.loads(file.read_bytes())
        with read_write(config.hydra):
            config.hydra.runtime.cwd = str(Path.cwd())
        return config

    return load_configuration


def remember_files(load: Callable[..., object]) -> Callable[..., object]:
    """Cache YAML files of the shipped `conf/`, which do not change in a test run."""
    shipped = str(config_dir())

    @cache
    def read_once(source: str, provider: str, path: str) -> bytes:
        return pickle.dumps(load(FileConfigSource(provider, source), path))

    def load_config(source: FileConfigSource, path: str) -> object:
        if source.path != shipped:
            return load(source, path)
        return pickle.loads(read_once(source.path, source.provider, path))

    return load_config
