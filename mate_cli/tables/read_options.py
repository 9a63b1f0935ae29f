"""Settings of reading a table file that a person can type; None leaves each to the evidence of the file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from mate_cli.errors import ConfigError, DataError
from mate_cli.tables.values.number_words import LOCALES_UNLIKE_LANGUAGE, POINT_LANGUAGES

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Limits:
    """The largest table that is read, blank rows and cells counted, and megabytes of the file unpacked."""

    rows: int = 1_048_576
    columns: int = 16_384
    cells: int = 20_000_000
    megabytes: int = 200

    def check(self, path: Path, **counts: float) -> None:
        """Refuse what is larger than the limit of that name.

        Raises:
            DataError: naming the limit, which can be raised.
        """
        for name, count in counts.items():
            if count > (most := getattr(self, name)):
                remedy = f"Give a part of it, or raise limits.{name}, now {most}"
                raise DataError(f"it has more than {most:,} {name}", where=str(path), remedy=remedy)


DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " ", "colon": ":", r"\t": "\t"}
"""Words for delimiters; any other is typed itself."""
QUOTES = {"none": "", "double": '"', "single": "'"}
"""Words for quotation marks."""


@dataclass(frozen=True)
class ReadOptions:
    """Settings for one table file.

    Args:
        sheet: name of a workbook's sheet, or its number from 1.
        encoding: of text files, such as "cp1252".
        header: number of the header line, from 1; 0 for a table without one.
        delimiter: between the columns of delimited text.
        quote: quotation mark of delimited text; "" for none.
        locale: how numbers are written, such as "de" or "en_IN".
        decimal: decimal mark, "." or ",".
        hidden: rows and columns that a workbook hides are read too.
        limits: the largest table that is read.
    """

    sheet: str | None = None
    encoding: str | None = None
    header: int | None = None
    delimiter: str | None = None
    quote: str | None = None
    locale: str | None = None
    decimal: str | None = None
    hidden: bool = True
    limits: Limits = field(default_factory=Limits)


AS_FOUND = ReadOptions()
"""Everything is left to the evidence of the file."""


def parse_header(value: str | int) -> int:
    """Parse what was typed as `header`: the number of a line, or none.

    Raises:
        ConfigError: it is neither.
    """
    text = str(value).strip()
    if text.lower() == "none":
        return 0
    if not text.isdecimal() or not int(text):
        remedy = "Give its line number, from 1, or header=none if the table has no header"
        raise ConfigError(f"{text!r} is not a line number", where="header", remedy=remedy)
    return int(text)


def parse_mark(key: str, value: str) -> str:
    """Parse what was typed as `delimiter` or `quote`: one character, or a word for it.

    Raises:
        ConfigError: it is neither.
    """
    words = DELIMITERS if key == "delimiter" else QUOTES
    mark = words.get(value.strip().lower(), value)
    if len(mark) > 1 or (mark in "\r\n\0" + ("" if key == "quote" else '"') and mark != ""):
        remedy = f"Write one character, or {', '.join(word for word in words if word.isalpha())}"
        raise ConfigError(f"{value!r} is not a valid {key}", where=key, remedy=remedy)
    return mark


def read_decimal(options: ReadOptions) -> str | None:
    """Return the decimal mark that was typed, by itself or by a locale.

    Raises:
        ConfigError: there is no such mark or locale.
    """
    decimal, locale = options.decimal, options.locale
    if decimal not in (None, ".", ","):
        raise ConfigError(f"{decimal!r} is not a decimal mark", where="decimal", remedy='Write decimal="," or "."')
    if decimal is not None or locale is None:
        return decimal
    language, _, region = locale.replace("-", "_").lower().partition("_")
    name = f"{language}_{region.upper()}" if region else language
    if not re.fullmatch(r"[a-z]{2,3}(_[A-Z0-9]{2,8})?", name):
        raise ConfigError(f"{locale!r} is not a locale", where="locale", remedy="Write one such as de or en_IN")
    return "." if (language in POINT_LANGUAGES) != (name in LOCALES_UNLIKE_LANGUAGE) else ","
