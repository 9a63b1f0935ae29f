"""Checks of the arguments of the Python API."""

from collections.abc import Callable
from functools import cache, wraps
from inspect import signature
from textwrap import shorten
from typing import Any, ParamSpec, TypeVar

from mate_cli.errors import ConfigError

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


def check_arguments(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Decorate a function so that invalid arguments raise `ConfigError`, not `TypeError`."""

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
            place = detail["loc"][0]
            name = str([*parameters, place][min(place, len(parameters))] if isinstance(place, int) else place)
            called = type(args[0]).__name__ if function.__name__ == "__init__" else function.__qualname__
            value = "missing" if detail["type"].startswith("missing") else shorten(repr(detail["input"]), 80)
            wanted = f"Give {parameters[name].annotation}" if name in parameters else "It has no such argument"
            raise ConfigError(f"{name} is {value}", where=called, remedy=f"{wanted}: see help({called})") from None
        return function(*args, **options)

    return call
