"""The user's own code that a run is made of: a hash of each module and file of `./conf`; nothing is imported."""

from __future__ import annotations

import ast
import hashlib
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import yaml  # type: ignore[import-untyped]

import mate_cli
from mate_cli.files.targets import find_beside

CONF = "conf"
"""Before the names of files of configuration, which lie in the working folder."""
INSTALLED = {"site-packages", "dist-packages"}


def hash_modules(targets: Iterable[str]) -> dict[str, str]:
    """Hash the user's own modules that names reach, and those that these import from the same folder.

    Args:
        targets: dotted names of classes and functions.

    Returns:
        The hash of each file, by its path below the folder from which it is imported.
    """
    hashes: dict[str, str] = {}
    for target in targets:
        if root := _find_root(target.partition(".")[0]):
            waiting = [target]
            while waiting:
                for file in _module_files(root, waiting.pop()):
                    name = file.relative_to(root).as_posix()
                    if name not in hashes:
                        hashes[name] = hash_file(file)
                        waiting += _imported_names(root, file)
    return dict(sorted(hashes.items()))


def hash_file(file: Path) -> str:
    """Return a hash of a file; of one of YAML, of what it says, whatever its comments."""
    content = file.read_bytes()
    if file.suffix == ".yaml":
        with suppress(yaml.YAMLError):  # a damaged one is what it is
            content = repr(yaml.load(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader))).encode()
    return hashlib.sha256(content).hexdigest()[:12]


def hash_package() -> str:
    """Return a hash of the sources of this program."""
    digest = hashlib.sha256()
    for file in sorted(Path(mate_cli.__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def warn_changed(recorded: Mapping[str, str], modules: Mapping[str, str], run: Path) -> None:
    """Say in one line which of the files that a run began with are others now, as far as they are here."""
    here = {name: Path(name) for name in recorded if name.startswith(f"{CONF}/") and ".." not in name}
    now = {**modules, **{name: hash_file(file) for name, file in here.items() if file.is_file()}}
    if changed := [name for name, mark in recorded.items() if now.get(name, mark) != mark]:
        have = "have" if len(changed) > 1 else "has"
        told = f"{', '.join(changed)} {have} changed since {run} began, which was trained with the old version"
        warnings.warn(told, stacklevel=2)


def _find_root(top: str) -> Path | None:
    """Return the folder that a module of the user's own is imported from; None for one that is installed."""
    if top == "mate_cli" or top in sys.stdlib_module_names or not top.isidentifier():
        return None
    find_beside([top])
    try:
        spec = find_spec(top)
    except ValueError:
        return None
    places = [*(spec.submodule_search_locations or [])] or [spec.origin or ""] if spec else []
    root = Path(places[0]).resolve().parent if places else Path("/")
    return root if places and places[0] and not INSTALLED & set(root.parts) else None


def _module_files(root: Path, name: str) -> Iterator[Path]:
    """Yield the files of a module and of the packages around it, as far as a dotted name goes."""
    place = root
    for part in name.split("."):
        yield from (file for file in (place / f"{part}.py", place / part / "__init__.py") if file.is_file())
        place = place / part


def _imported_names(root: Path, file: Path) -> Iterator[str]:
    """Yield the dotted names that a module imports; of what it cannot be known for, nothing."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    package = file.relative_to(root).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = package[: len(package) - node.level + 1] if node.level else ()
            module = [*around, *([node.module] if node.module else [])]
            yield from (".".join([*module, alias.name]) for alias in node.names)
