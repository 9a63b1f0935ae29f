"""Checks of a tree of configuration files, which tests also apply to invalid trees."""

from __future__ import annotations

import copy
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, open_dict

from mate_cli.cli.config.schema import SCHEMAS
from mate_cli.cli.config.validate import check_values, resolve_values, target_problems, validate
from mate_cli.cli.config_dir import config_dir
from mate_cli.cli.sweeps.sweep import GridSweeper
from mate_cli.errors import ConfigError
from mate_cli.runs.configuration import RunConfig

USER_GIVES = {
    "evaluate.yaml": ["run=folder"],
    "predict.yaml": ["run=folder", "input=file"],
    "export.yaml": ["run=folder", "to=folder"],
    "init/path.yaml": ["init.checkpoint=folder"],
}
"""Values that the user must specify, by file. All other values need a default."""


def files(root: Path) -> list[str]:
    """List the configuration files of a tree that can be composed separately."""
    found = (path.relative_to(root).as_posix() for path in root.rglob("*.yaml"))
    # A recipe fits only what its scale, network, task or dataset is chosen with, a base the experiments that extend it.
    return sorted(file for file in found if not file.startswith(("recipe/", "experiment/base/")))


def problem(root: Path, file: str, *, everywhere: bool = True) -> str | None:
    """Return the error of a configuration file, or None.

    A command that includes another command, as `inspect` includes `train`, is only checked for its own file.

    Args:
        root: root of the tree.
        file: path of the file, relative to `root`.
        everywhere: whether to compose every command that uses the file, instead of one.
    """
    group, _, name = file.removesuffix(".yaml").rpartition("/")
    used_by = [primary for primary in SCHEMAS if (group or name) in uses(root, primary)]
    used_by = [primary for primary in used_by if set(used_by).isdisjoint(taken_over(root, primary))]
    primaries = [name] if not group and name in SCHEMAS else used_by
    if not primaries:
        return "orphan: no command's defaults name it"
    choice = [f"{group}={name}"] if group else []
    for primary in primaries if everywhere else primaries[:1]:
        given = {*USER_GIVES.get(file, []), *USER_GIVES.get(f"{primary}.yaml", [])}
        try:
            validate(composed(root, primary, [*choice, *sorted(given)]), primary)
        except (HydraException, ConfigError) as error:
            return f"mate {primary}: {error}"
    return None


def composed(root: Path, primary: str, overrides: Sequence[str], *, hydra: bool = False) -> DictConfig:
    """Compose the configuration of a command. The result is cached.

    Args:
        root: root of the tree.
        primary: name of the command.
        overrides: overrides of the command line.
        hydra: whether to include the section `hydra`.
    """
    config = copy.deepcopy(_composed(root, primary, tuple(overrides)))
    if not hydra:
        with open_dict(config):
            del config["hydra"]
    return config


def sweep_jobs(file: Path, words: Sequence[str] = ()) -> list[list[str]]:
    """Return the overrides of each job of a sweep, with both ends of each interval."""
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    params = {key: ends(str(value)) for key, value in content["hydra"]["sweeper"]["params"].items()}
    return GridSweeper(None, params, content.get("rows") or []).jobs(words)


def ends(value: str) -> str:
    """Return the ends of an interval as a list of choices. Other values are unchanged."""
    found = re.search(r"interval\(([^,]+),\s*([^)]+)\)", value)
    return f"{found[1]},{found[2]}" if found else value


def negative_numbers(config: DictConfig) -> tuple[set[str], list[str]]:
    """Return the numeric keys of `mate train`, and the keys rejected if all numbers are -1."""
    keys: set[str] = set()

    def negated(value: object, key: str) -> object:
        if isinstance(value, dict):
            return {name: negated(part, f"{key}.{name}" if key else name) for name, part in value.items()}
        if isinstance(value, list):
            return [negated(part, key) for part in value]
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        keys.add(key)
        return type(value)(-1)

    values = negated(resolve_values(config), "")
    problems = [*check_values(values, "train")[1], *target_problems(values)]
    return keys, [problem.partition(": ")[0] for problem in problems]


def run_config(words: Sequence[str]) -> RunConfig:
    """Return the validated configuration of a training run."""
    values = resolve_values(composed(config_dir(), "train", words))
    return RunConfig.model_validate({key: values[key] for key in RunConfig.model_fields})


@cache
def _composed(root: Path, primary: str, overrides: tuple[str, ...]) -> DictConfig:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(root), version_base="1.3"):
        return compose(primary, list(overrides), return_hydra_config=True)


@cache
def uses(root: Path, primary: str) -> list[str]:
    """Return the groups and files in the defaults list of a command, recursively."""
    files = taken_over(root, primary)
    groups = [group for entry in _defaults(root, primary) if isinstance(entry, dict) for group in entry]
    return [*groups, *files, *(name for file in files for name in uses(root, file))]


def taken_over(root: Path, primary: str) -> list[str]:
    """Return the commands that the defaults list of a command includes."""
    return [entry for entry in _defaults(root, primary) if isinstance(entry, str) and entry != "_self_"]


def _defaults(root: Path, primary: str) -> list[str | dict]:
    path = root / f"{primary}.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8")).get("defaults", []) if path.exists() else []


def targets(root: Path) -> set[str]:
    """Return every `_target_` of a tree."""
    return {
        target
        for file in files(root)
        for target in _targets_in(yaml.safe_load((root / file).read_text(encoding="utf-8")))
    }


def _targets_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (part for key, part in value.items() if key == "_target_")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _targets_in(part)


def choosable_classes() -> list[str]:
    """Return the class paths of mate that some configuration file should name.

    The package of a class determines which classes are expected.
    """
    from mate_cli.lit_modules.base import TableTask
    from mate_cli.models.base.table_encoder import TableEncoder
    from mate_cli.models.initialization.initial_weights import Initializer

    def is_network(one: type) -> bool:
        return issubclass(one, TableEncoder) and one is not TableEncoder

    def is_task(one: type) -> bool:
        return issubclass(one, TableTask) and not _is_unfinished(one)

    kinds = {
        "mate_cli.models": is_network,
        "mate_cli.models.initialization": lambda one: issubclass(one, Initializer) and not _is_unfinished(one),
        "mate_cli.attention.backends": lambda one: hasattr(one, "supports"),
        "mate_cli.data": _is_dataset,
        "mate_cli.data.corpora": _is_dataset,
        "mate_cli.lit_modules": is_task,
        "mate_cli.lit_modules.optimization": lambda one: hasattr(one, "build"),
    }
    papers = importlib.import_module("mate_cli.papers").__path__
    rooms = [one.name for one in pkgutil.walk_packages(papers, "mate_cli.papers.") if one.ispkg]
    kinds |= dict.fromkeys(rooms, lambda one: is_network(one) or is_task(one))
    return [name for package, wanted in kinds.items() for name in _classes(package, wanted)]


def _is_dataset(one: type) -> bool:
    return hasattr(one, "splits") and hasattr(one, "examples") and not _is_unfinished(one)


def _is_unfinished(one: type) -> bool:
    """Return whether a class has abstract methods."""
    return any(getattr(getattr(one, name), "__isabstractmethod__", False) for name in dir(one))


def _classes(package: str, wanted: object) -> Iterator[str]:
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        module = importlib.import_module(info.name)
        for name, one in inspect.getmembers(module, inspect.isclass):
            own = one.__module__ == info.name and not name.startswith("_")
            if own and not getattr(one, "_is_protocol", False) and wanted(one):
                yield f"{info.name}.{name}"
