"""Types and docstrings of this package's classes, read from source without imports.

Importing torch would take seconds.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from mate_cli.cli.config_dir import PACKAGE

KNOWN = {kind.__name__: kind for kind in (int, float, str, bool, list, tuple, dict)}
PLAIN = ("typing", "pydantic", "pathlib", "collections.abc")
"""Modules outside this package from which annotations may use names."""


@functools.cache
def parameter_types(target: str) -> dict[str, Any]:
    """Return the types of a class's parameters by name, if their annotations can be evaluated.

    The class must be one of this package.
    """
    hints: dict[str, Any] = {}
    for module, node in reversed([*_classes(target)]):
        hints |= dict(_evaluated(_annotations(node), _names(module)))
    return hints


def docstrings(target: str) -> list[str]:
    """Return the docstrings of a class of this package and of its base classes, nearest first."""
    return [ast.get_docstring(node) or "" for _, node in _classes(target)]


def _classes(target: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield a class of this package and its base classes, with their modules."""
    module, _, name = target.rpartition(".")
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            yield module, node
            for base in (ast.unparse(base).partition("[")[0] for base in node.bases):
                yield from _classes(".".join(_imports(module).get(base, (module, base))))


def _annotations(node: ast.ClassDef) -> dict[str, ast.expr]:
    """Return the annotations of a constructor, or of the fields if there is no constructor."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            arguments = (*part.args.args, *part.args.kwonlyargs)
            return {argument.arg: argument.annotation for argument in arguments if argument.annotation}
    fields = [part for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)]
    return {ast.unparse(part.target): part.annotation for part in fields}


def _evaluated(annotations: Mapping[str, ast.expr], names: _Names) -> Iterator[tuple[str, Any]]:
    for key, annotation in annotations.items():
        with contextlib.suppress(NameError, TypeError, AttributeError):
            yield key, eval(ast.unparse(annotation), {"__builtins__": {}}, names)


class _Names(dict[str, Any]):
    """Namespace for annotations of a module: builtin, defined and imported types.

    An imported module is read when one of its names is requested.
    """

    def __init__(self, module: str) -> None:
        super().__init__(KNOWN)
        self._module = module

    def __missing__(self, name: str) -> Any:  # noqa: ANN401 - a type
        module, original = _imports(self._module).get(name, ("", ""))
        if module.startswith("mate_cli."):
            return _names(module)[original]
        if module in PLAIN:
            return getattr(importlib.import_module(module), original)
        for node in _tree(self._module).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                return dict(_evaluated({name: node.value}, self))[name]
        raise KeyError(name)


_names = functools.cache(_Names)


@functools.cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    """Return the origin (module, name) of each imported name of a module."""
    nodes = (node for node in _tree(module).body if isinstance(node, ast.ImportFrom))
    return {alias.asname or alias.name: (str(node.module), alias.name) for node in nodes for alias in node.names}


@functools.cache
def _tree(module: str) -> ast.Module:
    """Parse the source of a module of this package. Other modules are empty."""
    file = PACKAGE.parent / f"{module.replace('.', '/')}.py"
    is_own = module.startswith("mate_cli.") and file.is_file()
    return ast.parse(file.read_text(encoding="utf-8") if is_own else "")
