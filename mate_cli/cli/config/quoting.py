r"""Texts in the grammar of Hydra's overrides: `key='any text'`.

The grammar holds every text, and a configuration every text but one: `???` means a value that is missing, quoted or
not. Quotes and backslashes are escaped for Hydra's parser, `${` for OmegaConf, which would look up what follows.
"""

import re
from collections.abc import Iterable

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException


def quote_text(text: str) -> str:
    """Return a text as a quoted string, whose value in the configuration is the text."""
    return QuotedString(_without_interpolations(text), Quote.single).with_quotes()


def quote_list(texts: Iterable[str]) -> str:
    """Return texts as a list of quoted strings."""
    return f"[{','.join(map(quote_text, texts))}]"


def is_written(value: str) -> bool:
    """Say whether one value is in the grammar already: a quoted string, null, or nothing."""
    if value in ("", "null", "???"):
        return True
    return value[0] in "'\"" and _is_quoted_string(value)


def _is_quoted_string(value: str) -> bool:
    try:
        return isinstance(OverridesParser.create().parse_override(f"key={value}").value(), str)
    except HydraException:  # quotes inside that are not escaped: it is a text that happens to begin with one
        return False


def _without_interpolations(text: str) -> str:
    r"""Return what OmegaConf reads as this text: `\${` is no interpolation, and backslashes before it count double."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
