"""Type checks of the arguments of the public Python API."""

from collections.abc import Callable
from functools import cache, wraps
from inspect import signature
from textwrap import shorten
from typing import Any, ParamSpec, TypeVar

from mate_cli.errors import ConfigError

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


def check_arguments(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Decorate a function so that each call checks its arguments against the type annotations.

    The decorated function raises `ConfigError`, which names the argument, if an argument is missing, unknown or of
    another type.
    """

    @wraps(function)
    def accept(*args: Any, **options: Any) -> None: ...

    @cache
    def build_check() -> Callable[..., None]:
        from pydantic import validate_call  # Imported late, because pydantic is slow to import.

        return validate_call(config={"strict": True, "arbitrary_types_allowed": True})(accept)

    @wraps(function)
    def call(*args: Given.args, **options: Given.kwargs) -> Returned:
        try:
            build_check()(*args, **options)
        except ValueError as error:  # pydantic.ValidationError is a ValueError.
            detail, parameters = error.errors()[0], signature(function).parameters  # type: ignore[attr-defined]
            key = detail["loc"][0]
            name = str([*parameters, key][min(key, len(parameters))] if isinstance(key, int) else key)
            owner = type(args[0]).__name__ if function.__name__ == "__init__" else function.__qualname__
            value = "missing" if detail["type"].startswith("missing") else shorten(repr(detail["input"]), 80)
            hint = f"Give {parameters[name].annotation}" if name in parameters else "It has no such argument"
            raise ConfigError(f"{name} is {value}", where=owner, remedy=f"{hint}: see help({owner})") from None
        return function(*args, **options)

    return call
