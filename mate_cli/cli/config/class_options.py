"""Names, types and descriptions of the constructor parameters of a `_target_` class.

The configuration is validated against these parameters, its options. Classes of this package are read from source code,
because importing them would import torch, which takes seconds.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import importlib
import inspect
import pydoc
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mate_cli.cli.config_dir import PACKAGE
from mate_cli.errors import ConfigError
from mate_cli.files.targets import explain_missing, find_beside

PLAIN = ("typing", "pydantic", "pathlib", "collections.abc")
"""Modules outside this package whose names can be resolved in annotations."""


class ClassOptions(NamedTuple):
    """The constructor options that a configuration may pass to a class or function.

    Args:
        names: names of the parameters.
        hints: type of each parameter by name, if known.
        takes_any: whether other names are accepted too, as with `**options`.
        docstrings: docstrings of the class and its base classes in method resolution order.
    """

    names: Sequence[str]
    hints: Mapping[str, Any]
    takes_any: bool
    docstrings: Sequence[str]


def load_options(name: str) -> ClassOptions:
    """Import a class or function, and return the options that a configuration may pass to it.

    If a constructor takes `**options`, the parameters of the next base class are included.

    Args:
        name: dotted path of the class or function.

    Raises:
        ConfigError: the class or function does not exist, or cannot be imported.
    """
    target = _import_target(name)
    classes = getattr(target, "__mro__", ())
    bases = [base for base in classes if inspect.isfunction(vars(base).get("__init__"))]
    names: dict[str, None] = {}
    hints: dict[str, Any] = {}
    takes_any = True
    for callable_object in (target, *bases[1:]):
        if not takes_any:
            break
        parameters = inspect.signature(callable_object).parameters.values()
        names |= {p.name: None for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
        has_constructor = inspect.isclass(callable_object) and not dataclasses.is_dataclass(callable_object)
        holder: Any = callable_object.__init__ if has_constructor else callable_object
        with contextlib.suppress(NameError):  # The type is imported only for type checking.
            hints = typing.get_type_hints(holder, include_extras=True) | hints
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return ClassOptions([*names], hints, takes_any, [inspect.cleandoc(base.__doc__ or "") for base in classes])


def _import_target(name: str) -> Callable[..., object]:
    """Import the class or function with a dotted path.

    The user's modules are searched too.
    """
    find_beside([name])
    try:
        target = pydoc.locate(name)
    except pydoc.ErrorDuringImport as error:
        raise ConfigError(f"cannot import {name} ({error.value})") from error
    if target is None:
        raise ConfigError(explain_missing(name))
    if not callable(target):
        raise ConfigError(f"{name} is neither a class nor a function")
    return target


@functools.cache
def read_options(target: str) -> ClassOptions:
    """Read the constructor options of a class from its source, without importing the class.

    Only classes of this package are supported. Types whose annotations cannot be evaluated are omitted. Any name is
    accepted if a base class that receives `**options` is in another package.

    Args:
        target: dotted path of the class.
    """
    names: dict[str, None] = {}
    hints: dict[str, Any] = {}
    takes_any, is_dataclass = True, False
    classes = [*_classes(target)]
    for module, node in classes:
        hints = dict(_evaluated(_annotations(node), _names(module))) | hints
        init = _constructor(node)
        if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
            # Fields of base classes that are dataclasses are parameters too.
            is_dataclass = True
            names |= dict.fromkeys(_annotations(node))
        elif init and takes_any and not is_dataclass:
            names |= dict.fromkeys(_annotations(node))
            takes_any = init.args.kwarg is not None
    docstrings = [ast.get_docstring(node) or "" for _, node in classes]
    return ClassOptions([*names], hints, takes_any and not is_dataclass, docstrings)


def _classes(target: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield a class of this package and its base classes, as (module, syntax tree).

    The class comes first.
    """
    module, _, name = target.rpartition(".")
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            yield module, node
            for base in (ast.unparse(base).partition("[")[0] for base in node.bases):
                yield from _classes(".".join(_imports(module).get(base, (module, base))))


def _constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    functions = (part for part in node.body if isinstance(part, ast.FunctionDef))
    return next((function for function in functions if function.name == "__init__"), None)


def _annotations(node: ast.ClassDef) -> dict[str, ast.expr]:
    """Return the type annotations of a class's constructor options as syntax trees, by name.

    The options are the parameters of the constructor if the class defines one, else its fields.
    """
    if init := _constructor(node):
        arguments = (*init.args.args, *init.args.kwonlyargs)
        return {argument.arg: argument.annotation for argument in arguments if argument.annotation}
    fields = [part for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)]
    return {
        ast.unparse(part.target): part.annotation
        for part in fields
        if "ClassVar" not in ast.unparse(part.annotation) and "init=False" not in ast.unparse(part)
    }


def _evaluated(annotations: Mapping[str, ast.expr], names: _Names) -> Iterator[tuple[str, Any]]:
    for key, annotation in annotations.items():
        with contextlib.suppress(NameError, TypeError, AttributeError):
            yield key, eval(ast.unparse(annotation), {}, names)


class _Names(dict[str, Any]):
    """Namespace in which the type annotations of a module are evaluated without importing it.

    It contains the types that the module defines, and its imports. Imports are resolved lazily, when an annotation uses
    a name.
    """

    def __init__(self, module: str) -> None:
        super().__init__()
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
    """Return the origin of every name that a module imports with `from`, by local name.

    An origin is (module, original name).
    """
    nodes = (node for node in _tree(module).body if isinstance(node, ast.ImportFrom))
    return {alias.asname or alias.name: (str(node.module), alias.name) for node in nodes for alias in node.names}


@functools.cache
def _tree(module: str) -> ast.Module:
    """Return the syntax tree of a module, parsed from its source.

    The tree is empty for modules outside this package.
    """
    file = PACKAGE.parent / f"{module.replace('.', '/')}.py"
    is_own = module.startswith("mate_cli.") and file.is_file()
    return ast.parse(file.read_text(encoding="utf-8") if is_own else "")
