"""Classes that a configuration that is read from a file may build: it may come from a stranger, so only known parts.

Every `_target_` is looked at, at any depth, before anything is built. What one types or composes from one's own `conf/`
does not pass here.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mate_cli.errors import TrustError
from mate_cli.files.papers import PAPERS, find_packages

UNIFIED = "lightning.pytorch."
"""The same classes in the package that holds all of Lightning, which need not be installed."""


def find_beside(names: Iterable[str], *folders: Path) -> None:
    """Let modules be imported that lie in one of some folders, where no others of their names are installed.

    The working folder is looked into where none is named.
    """
    for top in {name.partition(".")[0] for name in names}:
        if not top.isidentifier() or top in sys.modules or find_spec(top) is not None:
            continue
        for folder in folders or (Path.cwd(),):
            if (folder / f"{top}.py").is_file() or (folder / top).is_dir():
                sys.path.append(str(folder.absolute()))
                importlib.invalidate_caches()
                break


def explain_missing(name: str) -> str:
    """Say why there is nothing of a dotted name, for people: "there is no ...", and as far as it goes."""
    module, _, attribute = name.rpartition(".")
    top = name.partition(".")[0]
    if not module:
        return f"there is no {name}"
    try:
        if name.startswith(UNIFIED) and find_spec(top) is None:
            return f"there is no {name} here: write {name.replace(UNIFIED, 'pytorch_lightning.')}"
        if top != "mate_cli" and find_spec(top) is None:
            return f"there is no {name}, as there is no module {top}: put {top}.py in this folder, or install it"
        if top != "mate_cli" and find_spec(module) is not None:
            return f"there is no {name}: {module} has no {attribute}"
    except (ImportError, ValueError):
        pass
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
"""Whose classes each part of a configuration may name, or which function; other parts name none."""
ONLY_OURS = "By default only classes of mate_cli are loaded, as configurations may be unsafe"
IF_TRUSTED = "If you trust its author, allow its module: trust=MODULE"


def check_targets(config: Mapping[str, Any], where: str, trust: Sequence[str] | None = None) -> None:
    """Refuse a configuration that names anything to build that is not of `PACKAGES`.

    An interpolation could still become such a name when it is resolved, so there must be none.

    Args:
        config: plain values, part by part; those of stages under `stages`.
        where: what it was read from, for the message.
        trust: modules of the user's own that parts may come from, too; None where there can be none.

    Raises:
        TrustError: naming the target or interpolation.
    """
    find_beside(trust or ())
    for part, key, value in _refused_leaves(config, trust or ()):
        if key != "_target_":
            raise TrustError(f"{value} is an interpolation", where=where, remedy="Write its value instead")
        if any(_is_in(str(value), module) for module in trust or ()) and _is_missing(str(value)):
            raise TrustError(explain_missing(str(value)), where=where)
        told = value if isinstance(value, str) else type(value).__name__
        remedy = ONLY_OURS if trust is None else IF_TRUSTED
        raise TrustError(f"{told} is not a class of mate that {part} can use", where=where, remedy=remedy)


def find_user_modules(config: Mapping[str, Any]) -> set[str]:
    """Find the modules that `check_targets` wants to be trusted."""
    return {str(value).rpartition(".")[0] for _, key, value in _refused_leaves(config, ()) if key == "_target_"}


def _refused_leaves(config: Mapping[str, Any], trust: Sequence[str]) -> Iterator[tuple[str, object, object]]:
    """Yield targets that are neither of `PACKAGES` nor trusted, and interpolations: the part, the key and the value."""
    for part, values in config.items():
        if part == "stages" and isinstance(values, Mapping):
            for stage in values.values():
                yield from _refused_leaves(stage if isinstance(stage, Mapping) else {"stages": [stage]}, trust)
            continue
        for keys, value in find_leaves(values, (part,)):
            key = keys[-1]
            refused = key == "_target_" and not _may_build(value, PACKAGES.get(part, ()), trust)
            if refused or (isinstance(value, str) and "${" in value and part in PACKAGES):
                yield part, key, value


def find_targets(value: object) -> Iterator[str]:
    """Find the names of everything that a configuration builds, at any depth."""
    return (leaf for keys, leaf in find_leaves(value) if keys[-1:] == ("_target_",) and isinstance(leaf, str))


def find_leaves(value: object, keys: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], object]]:
    """Yield every target, whatever it is, and every value that is no collection, with the keys that lead to it."""
    if keys[-1:] == ("_target_",) or isinstance(value, str) or not isinstance(value, (Mapping, Sequence)):
        yield keys, value
    else:
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from find_leaves(part, (*keys, key))


def _may_build(target: object, packages: Sequence[str], trust: Sequence[str]) -> bool:
    """Tell whether a package defines it, as a class, or a trusted module; imports of these do not count."""
    if target in packages:
        return True
    module, _, name = str(target).rpartition(".")
    if not isinstance(target, str) or not any(_is_in(module, package) for package in (*packages, *trust)):
        return False
    try:
        member = getattr(importlib.import_module(module), name, None)
    except (ImportError, ValueError):
        return False
    homes = (*(packages if inspect.isclass(member) else ()), *(trust if callable(member) else ()))
    return any(_is_in(module, home) and _is_in(str(member.__module__), home) for home in homes)


def _is_missing(target: str) -> bool:
    """Tell whether a trusted module does not have what is to be built of it, or cannot be imported."""
    module, _, name = target.rpartition(".")
    try:
        return not hasattr(importlib.import_module(module), name)
    except (ImportError, ValueError):
        return True


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
