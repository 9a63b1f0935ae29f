"""Texts of cell values, which are equal for all file formats, and of counts and lists."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

MAX_WHOLE = 1e20
"""Integers below this number are written without an exponent."""
MAX_NUMBER = 40
_ZEROS, _NO_SECONDS = re.compile(r"(\.\d+?)0+(?!\d)"), re.compile(r"(?<=:\d\d):00(?![:.])")
_MOSTLY_DIGITS = re.compile(r"\W*\d(?:[\d\W]*\d)?\W*[^\W\d]{0,3}\W*")
_MONGO_TYPE = re.compile(r"\$(?:number\w+|oid|date|uuid)")
"""Key of a value in the extended JSON of MongoDB, such as {"$numberLong": "5"}."""


class NumberText(str):
    """Text of a table cell, with the number that the file stores for this cell.

    Sums and comparisons use the number, not the text. Methods of `str`, such as `lower`, return a
    text without a number.
    """

    __slots__ = ("number",)
    number: float

    def __new__(cls, text: str, number: float) -> NumberText:
        """Create a cell text with its number, such as 12.5 for the text 12.5%."""
        number_text = super().__new__(cls, text)
        number_text.number = number
        return number_text

    def __getnewargs__(self) -> tuple[str, float]:  # type: ignore[override]
        """Return the arguments of `__new__` for copy and pickle."""
        return str(self), self.number


def spreadsheet_text(value: Any) -> str:  # noqa: ANN401 - any cell value
    """Format a value as the text that a spreadsheet shows for it, such as TRUE or 2024-03-01.

    Integers have no `.0`, dates are written as 2024-03-01, null is empty, and nested values become JSON.
    """
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if hasattr(value, "dtype"):  # numpy scalar or array
        return spreadsheet_text(_of_numpy(value))
    if isinstance(value, (int, float, Decimal)):
        text = f"{value:d}" if isinstance(value, int) else spreadsheet_number(value)
        number = float(text if isinstance(value, int) else value)
        return NumberText(text, number) if math.isfinite(number) else text
    if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
        return spreadsheet_date(value)
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, dict) and len(value) == 1 and _MONGO_TYPE.fullmatch(str(*value)):
        (content,) = value.values()
        return json.dumps(value) if isinstance(content, (dict, list)) else spreadsheet_text(content)
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        return json.dumps(_for_json(value), ensure_ascii=False)
    return str(value)


def _of_numpy(value: Any) -> Any:  # noqa: ANN401
    """Convert a numpy scalar or array to Python values, for display.

    A float32 0.1 becomes 0.1, not 0.10000000149.
    """
    if getattr(value, "ndim", 0):
        return list(value)
    if value.dtype.kind == "f":
        number = float(value)
        # 32 bits represent all integers below 2 ** 24 exactly.
        return number if number.is_integer() and abs(number) < 2**24 else float(str(value))
    return str(value) if value.dtype.kind in "mM" else value.item()


def _for_json(value: Any) -> Any:  # noqa: ANN401
    if hasattr(value, "dtype"):
        value = _of_numpy(value)
    if isinstance(value, dict):
        return {spreadsheet_text(key): _for_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_for_json(item) for item in value]
    is_plain = isinstance(value, (int, str)) or (isinstance(value, float) and math.isfinite(value))
    return value if is_plain else spreadsheet_text(value) or None


def spreadsheet_number(value: float | Decimal) -> str:
    """Format a number with at most 15 digits, like a spreadsheet.

    Integers and `Decimal` are exact.
    """
    if not math.isfinite(value):
        return "" if math.isnan(value) else str(float(value))
    if isinstance(value, Decimal):
        return format(value, "f") if abs(value.adjusted()) < 400 else str(value)
    if value != round(value):
        value = float(f"{value:.15g}")
    return f"{value + 0.0:.0f}" if value == round(value) and abs(value) < MAX_WHOLE else repr(value)


def spreadsheet_date(value: datetime.date | datetime.time | datetime.timedelta) -> str:
    """Format a date, a time or a duration as the text that a spreadsheet shows for it.

    Midnight, zero seconds and trailing zeros of fractions are omitted.
    """
    if isinstance(value, datetime.timedelta):
        seconds, parts = divmod(abs(value) // datetime.timedelta(microseconds=1), 10**6)
        sign = "-" if value.days < 0 else ""
        text = f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{parts:06}"
        return text.rstrip("0").rstrip(".")
    text = value.isoformat().replace("T", " ")
    text = _ZEROS.sub(r"\1", text) if "." in text else _NO_SECONDS.sub("", text)
    return text.removesuffix(" 00:00")


def valid(text: str) -> str:
    """Replace lone surrogates, which JSON can contain, so that a text can be encoded as UTF-8."""
    return re.sub(r"[\ud800-\udfff]", "\ufffd", text)


def is_mostly_digits(text: str) -> bool:
    """Return whether a text looks like a number, a date or a time, possibly with a unit."""
    return len(text) <= MAX_NUMBER and _MOSTLY_DIGITS.fullmatch(text) is not None


def count_noun(count: int, noun: str) -> str:
    """Format a count and its noun, such as `1 row`, `3 rows` or `50,000 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def list_names(names: Iterable[str], limit: int = 5) -> str:
    """Join names by commas. After `limit` names, the rest is counted: "a, b and 3 more"."""
    texts = list(names)
    tail = f" and {len(texts) - limit:,} more" if len(texts) > limit else ""
    return ", ".join(texts[:limit]) + tail
