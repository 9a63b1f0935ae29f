r"""Texts as Hydra's grammar of overrides and a shell take them: `key='any text'`, and commands to paste.

The grammar holds every text, and a configuration every text but one: `???` means a value that is missing, quoted or
not. Quotes and backslashes are escaped for Hydra's parser, `${` for OmegaConf, which would look up what follows.
"""

import re
import shlex
from collections.abc import Iterable, Mapping


def format_setting(key: str, value: object) -> str:
    """Return `key=value` to paste into a shell; a path, a text, or what a list or mapping holds arrives as it is."""
    return quote_for_shell(f"{key}={_write(value)}")


def format_command(*words: str) -> str:
    """Return a command to paste into a shell, of words as a program receives them."""
    return " ".join(map(quote_for_shell, words))


def quote_for_shell(word: str) -> str:
    """Return a word in quotes, where a shell would take it apart or look for files of that name."""
    in_double_quotes = "'" in word and not re.search(r"""["$`!]|\\(?!')""", word)
    return f'"{word}"' if in_double_quotes else shlex.quote(word)


def quote_text(text: str) -> str:
    """Return a text as a quoted string, whose value in the configuration is the text."""
    from hydra.core.override_parser.types import Quote, QuotedString  # whoever prints no command does not need it

    return QuotedString(_without_interpolations(text), Quote.single).with_quotes()


def write_value(value: object) -> str:
    """Return a value of a YAML file in the grammar, with interpolations that stay such."""
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
    """Say whether one value is in the grammar already: a quoted string, null, or nothing."""
    if value in ("", "null", "???"):
        return True
    return value[0] in "'\"" and isinstance(_parsed(value), str)


def _write(value: object) -> str:
    """Write a value in the grammar, with quotes where it needs them."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_write(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_write, value))}]"
    text = str(value)
    return text if _is_plain(text) else quote_text(text)


def _is_plain(text: str) -> bool:
    """Say whether the grammar takes a text as it is."""
    return text[:1] not in ("", "'", '"') and "${" not in text and _parsed(text) == text


def _parsed(value: str) -> object:
    """Return what the grammar makes of a value; None where it cannot be read."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(f"key={value}").value()
    except HydraException:  # of quotes inside that are not escaped, for example
        return None


def _without_interpolations(text: str) -> str:
    r"""Return what OmegaConf reads as this text: `\${` is no interpolation, and backslashes before it count double."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
