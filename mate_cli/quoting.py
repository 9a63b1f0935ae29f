r"""Quoting of `key='any text'` for Hydra's override grammar, and of commands for a shell.

The grammar can express every text. A configuration can contain every text except `???`, which means a missing value
even in quotes. Quotes and backslashes are escaped for Hydra's parser, and `${` is escaped for OmegaConf, which would
interpolate it.
"""

import re
import shlex
from collections.abc import Iterable, Mapping


def format_setting(key: str, value: object) -> str:
    """Return `key=value` quoted for a shell, preserving texts, paths and collections."""
    return quote_for_shell(f"{key}={_write(value)}")


def format_command(*words: str) -> str:
    """Return a command for a shell from the arguments that a program should receive."""
    return " ".join(map(quote_for_shell, words))


def quote_for_shell(word: str) -> str:
    """Quote an argument if a shell would split or expand it."""
    in_double_quotes = "'" in word and not re.search(r"""["$`!]|\\(?!')""", word)
    return f'"{word}"' if in_double_quotes else shlex.quote(word)


def quote_text(text: str) -> str:
    """Return a text as a quoted string of the override grammar."""
    from hydra.core.override_parser.types import Quote, QuotedString  # slow to import

    return QuotedString(_without_interpolations(text), Quote.single).with_quotes()


def write_value(value: object) -> str:
    """Return a YAML value in the override grammar. Interpolations stay interpolations."""
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{write_value(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(write_value, value))}]"
    if isinstance(value, str):
        return quote_text(value).replace(r"\${", "${")
    return "null" if value is None else str(value).lower()


def quote_list(texts: Iterable[str]) -> str:
    """Return texts as a list of quoted strings."""
    return f"[{','.join(map(quote_text, texts))}]"


def is_written(value: str) -> bool:
    """Return whether a value is already in the grammar: quoted, null, missing or empty."""
    if value in ("", "null", "???"):
        return True
    return value[0] in "'\"" and isinstance(_parsed(value), str)


def _write(value: object) -> str:
    """Return a value in the override grammar, quoted if necessary."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_write(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_write, value))}]"
    text = str(value)
    return text if _is_plain(text) else quote_text(text)


def _is_plain(text: str) -> bool:
    """Return whether the override grammar parses a text without quotes as the same text."""
    return text[:1] not in ("", "'", '"') and "${" not in text and _parsed(text) == text


def _parsed(value: str) -> object:
    """Return the value that the override grammar parses, None if it is invalid."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(f"key={value}").value()
    except HydraException:  # unescaped quotes inside, for example
        return None


def _without_interpolations(text: str) -> str:
    r"""Escape interpolations for OmegaConf as `\${`, doubling the backslashes before them."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
