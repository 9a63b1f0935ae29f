"""Cache of composed configurations.

Each set of overrides is composed once per test run, and each process reads each YAML file once.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra.core.default_element import InputDefault
from hydra.core.object_type import ObjectType
from hydra.core.utils import JobRuntime
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, read_write

from mate_cli.cli.config_dir import config_dir

Composition = Callable[..., DictConfig]


def install(folder: Path) -> None:
    """Cache Hydra's compositions of the shipped `conf/` in `folder`.

    All processes of a test run share the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ConfigLoaderImpl.load_configuration = remember_compositions(ConfigLoaderImpl.load_configuration, folder)
    ConfigRepository.load_config = remember_files(ConfigRepository.load_config)
    defaults_list._create_interpolation_map = skip_unused_choices(defaults_list._create_interpolation_map)


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


def remember_files(load: Callable[..., ConfigResult | None]) -> Callable[..., ConfigResult | None]:
    """Cache configuration files of mate and of Hydra, which do not change in a test run."""
    shipped, results = str(config_dir()), {}

    def load_config(repository: ConfigRepository, config_path: str) -> ConfigResult | None:
        source = repository._find_object_source(config_path, ObjectType.CONFIG)
        if source is None or not (source.scheme() == "pkg" or source.path == shipped):
            return load(repository, config_path)
        key = source.path, source.provider, config_path
        if key not in results:
            results[key] = pickle.dumps(load(repository, config_path))
        return pickle.loads(results[key])

    return load_config


def skip_unused_choices(create: Composition) -> Callable[..., DictConfig | None]:
    """Collect the options of a defaults list only if some entry is an interpolation, which alone needs them."""

    def create_interpolation_map(overrides: object, defaults: list[InputDefault], *how: object) -> DictConfig | None:
        return create(overrides, defaults, *how) if any(default.is_interpolation() for default in defaults) else None

    return create_interpolation_map
