"""Options of reading a table file. None means: infer the option from the file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from mate_cli.errors import ConfigError, DataError
from mate_cli.tables.values.number_words import LOCALES_UNLIKE_LANGUAGE, POINT_LANGUAGES

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Limits:
    """Maximum size of a table. Larger tables are rejected with an error.

    Args:
        rows: maximum number of rows, blank rows included.
        columns: maximum number of columns.
        cells: maximum number of cells, blank cells included.
        megabytes: maximum size of the uncompressed file, in units of 10^6 bytes.
    """

    rows: int = 1_048_576
    columns: int = 16_384
    cells: int = 20_000_000
    megabytes: int = 200

    def check(self, path: Path, **counts: float) -> None:
        """Raise `DataError` if a table is larger than one of the limits.

        Args:
            path: path of the table file, for the error message.
            counts: sizes by the name of their limit, such as `rows=5`.

        Raises:
            DataError: a size exceeds its limit. The message names the key that raises the limit.
        """
        for name, count in counts.items():
            if count > (limit := getattr(self, name)):
                hint = f"Give a part of it, or raise limits.{name}, now {limit}"
                raise DataError(f"it has more than {limit:,} {name}", where=str(path), remedy=hint)


DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " ", "colon": ":", r"\t": "\t"}
"""Delimiters by the names that users may write for `delimiter`. Other delimiters are written as themselves."""
QUOTES = {"none": "", "double": '"', "single": "'"}
"""Quotation marks by the names that users may write for `quote`."""


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading one table file. None means: infer the option from the file.

    Args:
        sheet: name of a sheet of a workbook, or its number from 1.
        encoding: encoding of a text file, such as "cp1252".
        header: line number of the header, from 1. 0 for a table without a header.
        delimiter: character between the columns of delimited text.
        quote: quotation mark of delimited text. "" for none.
        locale: locale whose decimal mark is used, such as "de" or "en_IN".
        decimal: decimal mark, "." or ",". Takes precedence over `locale`.
        hidden: whether hidden rows and columns of a workbook are read.
        limits: maximum size of the table.
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
"""Default options: all are inferred from the file."""


def parse_header(value: str | int) -> int:
    """Parse the value of `header`: a line number from 1, or "none", which becomes 0.

    Raises:
        ConfigError: the value is neither.
    """
    text = str(value).strip()
    if text.lower() == "none":
        return 0
    if not text.isdecimal() or not int(text):
        hint = "Give its line number, from 1, or header=none if the table has no header"
        raise ConfigError(f"{text!r} is not a line number", where="header", remedy=hint)
    return int(text)


def parse_mark(key: str, value: str) -> str:
    """Parse the value of `delimiter` or `quote`: one character, or a name such as "tab".

    Raises:
        ConfigError: the value is neither.
    """
    words = DELIMITERS if key == "delimiter" else QUOTES
    mark = words.get(value.strip().lower(), value)
    if len(mark) > 1 or (mark in "\r\n\0" + ("" if key == "quote" else '"') and mark != ""):
        hint = f"Write one character, or {', '.join(word for word in words if word.isalpha())}"
        raise ConfigError(f"{value!r} is not a valid {key}", where=key, remedy=hint)
    return mark


def read_decimal(options: ReadOptions) -> str | None:
    """Return the decimal mark that the options set, by `decimal` or `locale`. None if it must be inferred.

    Raises:
        ConfigError: the decimal mark or the locale is invalid.
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
