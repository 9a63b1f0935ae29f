"""pydantic's errors as sentences, such as `trainer.max_steps: must be greater than 0 (got -5)`."""

import itertools
from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mate_cli.cli.config.foreign_keys import offer, translate_key
from mate_cli.cli.shell.help import nearest
from mate_cli.errors import ConfigError
from mate_cli.quoting import format_setting

KINDS = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a group of keys",
    "model_type": "a group of keys",
    "dataclass_type": "a group of keys",
    "none_required": "null",
    "too_short": "one or more",
}
"""The type that a value must have, by pydantic's name of the error."""


MAX_SHOWN = 200
"""Letters of a value that a sentence quotes."""


def validation_messages(error: ValidationError, values: object, path: str = "", schema: object = None) -> Iterator[str]:
    """Yield one sentence per key of a failed check."""
    placed = [(_keys(detail, values), detail) for detail in error.errors()]
    for keys, group in itertools.groupby(placed, key=lambda pair: pair[0]):
        details = [detail for _, detail in group]
        place = ".".join(filter(None, [path, *map(str, keys)]))
        if details[0]["type"] == "extra_forbidden":
            yield unknown_key(place, _fields(schema, keys[:-1]))
        else:
            yield _explain_value(place, details)


def unknown_key(place: str, known: Sequence[str]) -> str:
    """Return the sentence about a key that nothing reads."""
    section, _, name = place.rpartition(".")
    ours = translate_key(place)
    remedy = offer(ours) if ours and ours != place else nearest(name, known, prefix=f"{section}." if section else "")
    if place in ("experiment", "debug"):
        remedy = "Start its file with the line # @package _global_"
    elif remedy is None and known:
        remedy = f"Known here: {', '.join(sorted(known))}"
    return str(ConfigError("unknown key", where=place, remedy=remedy))


def _keys(detail: ErrorDetails, values: object) -> tuple[int | str, ...]:
    """Return the part of pydantic's location that exists in the values; what follows are names of types."""
    keys: list[int | str] = []
    for key in detail["loc"]:
        if not _holds(values, key):
            return (*keys, key) if detail["type"] == "missing" else tuple(keys)
        values = values[key]  # type: ignore[index]
        keys.append(key)
    return tuple(keys)


def _holds(values: object, key: int | str) -> bool:
    if isinstance(values, dict):
        return key in values
    return isinstance(values, list) and isinstance(key, int) and key < len(values)


def _fields(schema: object, keys: Sequence[int | str]) -> list[str]:
    """Return the field names of the model that a path of keys leads to."""
    for key in keys:
        fields = getattr(schema, "model_fields", {})
        schema = fields[key].annotation if key in fields else None
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return []
    return [field.alias or name for name, field in schema.model_fields.items()]


def _explain_value(place: str, details: Sequence[ErrorDetails]) -> str:
    """Return the sentence about one value: its bound if it has the right type, else the types it may have."""
    if details[0]["type"] == "missing":
        return str(ConfigError("is missing", where=place))
    bounds = [detail for detail in details if detail["type"] not in {*KINDS, "literal_error"}]
    phrases = list(dict.fromkeys(_demand(detail) for detail in bounds[:1] or details))
    value = details[0]["input"]
    remedy = f"Type {format_setting(place, [value])}" if "a list" in phrases and isinstance(value, str) else None
    return str(ConfigError(f"must be {' or '.join(phrases)} (got {_shorten_value(value)})", where=place, remedy=remedy))


def _shorten_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} ..."


def _demand(detail: ErrorDetails) -> str:
    if detail["type"] == "literal_error":
        return str(detail["ctx"]["expected"])
    message = detail["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return KINDS.get(detail["type"], message[:1].lower() + message[1:])
