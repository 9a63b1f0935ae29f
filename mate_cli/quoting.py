r"""Quote values for Hydra's override grammar, as in `key='any text'`, and for a shell.

Quotes and backslashes are escaped for Hydra's parser, and `${` is escaped for OmegaConf, which would interpolate it.
Every text can be expressed, except `???`: it means a missing value even in quotes.
"""

import re
import shlex
from collections.abc import Iterable, Mapping


def format_setting(key: str, value: object) -> str:
    """Return the override `key=value`, quoted for Hydra and for a shell.

    Args:
        key: configuration key.
        value: text, path, number, list or mapping. Hydra parses the override as an equal value.
    """
    return quote_for_shell(f"{key}={_write(value)}")


def format_command(*words: str) -> str:
    """Join a program and its arguments to a shell command, quoting each argument if necessary."""
    return " ".join(map(quote_for_shell, words))


def quote_for_shell(word: str) -> str:
    """Quote a command-line argument for a shell, if the shell would split or expand it."""
    in_double_quotes = "'" in word and not re.search(r"""["$`!]|\\(?!')""", word)
    return f'"{word}"' if in_double_quotes else shlex.quote(word)


def quote_text(text: str) -> str:
    """Return a text in quotes for Hydra's override grammar, such as `'a, b'`."""
    from hydra.core.override_parser.types import Quote, QuotedString  # slow to import

    return QuotedString(_without_interpolations(text), Quote.single).with_quotes()


def write_value(value: object) -> str:
    """Format a YAML value as the value of a Hydra override.

    Interpolations such as `${seed}` are not escaped.
    """
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{write_value(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(write_value, value))}]"
    if isinstance(value, str):
        return quote_text(value).replace(r"\${", "${")
    return "null" if value is None else str(value).lower()


def quote_list(texts: Iterable[str]) -> str:
    """Format texts as a list for Hydra's override grammar, such as `['a','b']`."""
    return f"[{','.join(map(quote_text, texts))}]"


def is_written(value: str) -> bool:
    """Return whether an override value needs no quotes, such as `null` or a quoted text."""
    if value in ("", "null", "???"):
        return True
    return value[0] in "'\"" and isinstance(_parsed(value), str)


def _write(value: object) -> str:
    """Format a value in Hydra's override grammar.

    Texts are quoted only if necessary.
    """
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_write(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_write, value))}]"
    text = str(value)
    return text if _is_plain(text) else quote_text(text)


def _is_plain(text: str) -> bool:
    """Return whether Hydra's override grammar parses a text without quotes as the same text."""
    return text[:1] not in ("", "'", '"') and "${" not in text and _parsed(text) == text


def _parsed(value: str) -> object:
    """Parse a value in Hydra's override grammar, or return None if the value is invalid."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(f"key={value}").value()
    except HydraException:  # The value contains unescaped quotes, for example.
        return None


def _without_interpolations(text: str) -> str:
    r"""Escape each `${` in a text for OmegaConf, and double the backslashes before each `${`."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
