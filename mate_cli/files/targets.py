"""Checks of the `_target_`s of untrusted configurations.

Only known or trusted classes may be instantiated.

Every `_target_`, at any depth, is checked before instantiation. Configurations composed from the command line and the
user's `conf/` are trusted and not checked.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mate_cli.errors import TrustError
from mate_cli.files.papers import PAPERS, find_packages

UNIFIED = "lightning.pytorch."
"""Prefix of the classes of `pytorch_lightning` in the package `lightning`, which need not be installed."""


def find_beside(names: Iterable[str], *folders: Path) -> None:
    """Append the folders of user-defined modules to `sys.path`, so that they can be imported.

    Modules that are installed or already imported are skipped.

    Args:
        names: dotted names of the modules or their members.
        *folders: folders to search; without any, the working directory.
    """
    for root in {name.partition(".")[0] for name in names}:
        if not root.isidentifier() or root in sys.modules or find_spec(root) is not None:
            continue
        for folder in folders or (Path.cwd(),):
            if (folder / f"{root}.py").is_file() or (folder / root).is_dir():
                sys.path.append(str(folder.absolute()))
                importlib.invalidate_caches()
                break


def explain_missing(name: str) -> str:
    """Return the text of an error about a dotted name that cannot be imported.

    The text starts with "there is no NAME", followed by the reason if it is known.
    """
    module, _, attribute = name.rpartition(".")
    root = name.partition(".")[0]
    if not module:
        return f"there is no {name}"
    with suppress(ImportError, ValueError):
        if name.startswith(UNIFIED) and find_spec(root) is None:
            return f"there is no {name} here: write {name.replace(UNIFIED, 'pytorch_lightning.')}"
        if root != "mate_cli" and find_spec(root) is None:
            return f"there is no {name}, as there is no module {root}: put {root}.py in this folder, or install it"
        if root != "mate_cli" and find_spec(module) is not None:
            return f"there is no {name}: {module} has no {attribute}"
    return f"there is no {name}"


OPTIMIZATION = ("mate_cli.lit_modules.optimization", "torch.optim")
PACKAGES = {
    "encoding": ("mate_cli.tokenization", PAPERS),
    "init": ("mate_cli.models.initialization",),
    "model": ("mate_cli.models", *find_packages("models")),
    "attention": ("mate_cli.attention",),
    "task": ("mate_cli.lit_modules", "mate_cli.metrics", PAPERS),
    "data": ("mate_cli.data", *find_packages("datasets"), *find_packages("databases")),
    "optimizer": OPTIMIZATION,
    "scheduler": OPTIMIZATION,
    "system": ("mate_cli.pipelines.systems", PAPERS),
    "callbacks": ("pytorch_lightning.callbacks",),
    "logger": ("mate_cli.runs.loggers.wandb_logger", "pytorch_lightning.loggers"),
    "trainer": ("pytorch_lightning.profilers", "pytorch_lightning.plugins"),
}
"""Packages and functions from which each configuration section may name `_target_`s. No other section may have any."""
ONLY_OURS = "By default only classes of mate_cli are loaded, as configurations may be unsafe"
IF_TRUSTED = "If you trust its author, allow its module: trust=MODULE"


def check_targets(config: Mapping[str, Any], where: str, trust: Sequence[str] | None = None) -> None:
    """Check that all `_target_`s of a configuration are in `PACKAGES` or in trusted modules.

    Interpolations are rejected, because they could resolve to a target.

    Args:
        config: unresolved values by section, with the configurations of stages below `stages`.
        where: source of the configuration, for the error message.
        trust: additional trusted modules. None if the user cannot specify any.

    Raises:
        TrustError: a target is not trusted, or a value is an interpolation. The error names the value.
    """
    find_beside(trust or ())
    for part, key, value in _refused_leaves(config, trust or ()):
        if key != "_target_":
            raise TrustError(f"{value} is an interpolation", where=where, remedy="Write its value instead")
        if any(_is_in(str(value), module) for module in trust or ()) and _find_member(str(value)) is None:
            raise TrustError(explain_missing(str(value)), where=where)
        text = value if isinstance(value, str) else type(value).__name__
        hint = ONLY_OURS if trust is None else IF_TRUSTED
        raise TrustError(f"{text} is not a class of mate that {part} can use", where=where, remedy=hint)


def find_user_modules(config: Mapping[str, Any]) -> set[str]:
    """Return the modules that must be trusted before a configuration may be instantiated.

    `check_targets` rejects the `_target_`s in these modules unless they are trusted.
    """
    return {str(value).rpartition(".")[0] for _, key, value in _refused_leaves(config, ()) if key == "_target_"}


def _refused_leaves(config: Mapping[str, Any], trust: Sequence[str]) -> Iterator[tuple[str, object, object]]:
    """Yield each interpolation and each untrusted `_target_`, as (section, key, value)."""
    for part, values in config.items():
        if part == "stages" and isinstance(values, Mapping):
            for stage in values.values():
                yield from _refused_leaves(stage if isinstance(stage, Mapping) else {"stages": [stage]}, trust)
            continue
        for keys, value in find_leaves(values, (part,)):
            key = keys[-1]
            rejected = key == "_target_" and not _may_build(value, PACKAGES.get(part, ()), trust)
            if rejected or (isinstance(value, str) and "${" in value and part in PACKAGES):
                yield part, key, value


def find_targets(value: object) -> Iterator[str]:
    """Yield the dotted names in all `_target_` keys of a configuration, at any depth."""
    return (leaf for keys, leaf in find_leaves(value) if keys[-1:] == ("_target_",) and isinstance(leaf, str))


def find_leaves(value: object, keys: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], object]]:
    """Yield every scalar in nested dicts and lists, with its path of keys.

    A `_target_` is yielded even if it is no scalar.
    """
    if keys[-1:] == ("_target_",) or isinstance(value, str) or not isinstance(value, (Mapping, Sequence)):
        yield keys, value
    else:
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from find_leaves(part, (*keys, key))


def _may_build(target: object, packages: Sequence[str], trust: Sequence[str]) -> bool:
    """Return whether a `_target_` is defined in one of `packages` or in a trusted module.

    In a package, the `_target_` must be a class. In a trusted module, it may be any callable. A package or module that
    only imports the `_target_` does not define it.
    """
    if target in packages:
        return True
    module = str(target).rpartition(".")[0]
    if not isinstance(target, str) or not any(_is_in(module, package) for package in (*packages, *trust)):
        return False
    member = _find_member(target)
    homes = (*(packages if inspect.isclass(member) else ()), *(trust if callable(member) else ()))
    return any(_is_in(module, home) and _is_in(str(member.__module__), home) for home in homes)


def _find_member(target: str) -> object:
    """Import a class or function by its dotted name.

    Return None if it does not exist.
    """
    module, _, name = target.rpartition(".")
    with suppress(ImportError, ValueError):
        return getattr(importlib.import_module(module), name, None)
    return None


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
