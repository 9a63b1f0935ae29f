"""Numbers and dates as the number format of a spreadsheet's cell shows them.

The commonest formats are followed: decimals, thousands, percent, currency and other literal text, parts of dates.
A date with day, month and year in digits is written as 2024-03-01, which reads alike everywhere; what is not
understood (fractions, exponents) is written as a plain number.

Source: ECMA-376 part 1, section 18.8.31 (numFmts).
"""

from __future__ import annotations

import datetime
import math
import re
from functools import lru_cache
from typing import NamedTuple

from mate_cli.tables.formats.cell_text import spreadsheet_date, spreadsheet_number

_SECTION = re.compile(r';(?=(?:[^"]*"[^"]*")*[^"]*$)')
_CURRENCY, _BRACKETS = re.compile(r"\[\$([^\]-]*)[^\]]*\]"), re.compile(r"\[[^\]]*\]")
_LITERAL = re.compile(r'"([^"]*)"|\\(.)|_.|\*.')
_DIGITS = re.compile(r"[#0?][#0?,]*(?:\.[#0?]*)?,*")
_DATE_PART = re.compile(r"yyyy|yy|mmmmm|mmmm|mmm|mm|m|dddd|ddd|dd|d|hh|h|ss|s|AM/PM", re.IGNORECASE)
LONGEST = 255
"""Characters of a number format that spreadsheet programs take."""
_GENERAL_DIGITS = 10
"""A cell of the format General shows about as many."""

BEYOND = "#NUM!"
"""What spreadsheet programs show of a number that is too large for them."""


class NumberShape(NamedTuple):
    """How one section of a format writes a number."""

    before: str
    after: str
    decimals: int
    thousands: bool
    scale: float


def formatted_number(value: float, number_format: str | None) -> str:
    """Write a number in a number format; `BEYOND` where it, or what is shown of it, is beyond all numbers."""
    known = number_format if number_format and len(number_format) <= LONGEST else "General"
    shape = _shape(known, value < 0, value == 0)
    if not _is_finite(value, shape[0].scale if shape else 1.0):
        return BEYOND
    if shape is None:
        return spreadsheet_number(float(f"{value:.{_GENERAL_DIGITS}g}") if isinstance(value, float) else value)
    own, negative = shape
    digits = f"{abs(value) * own.scale:{',' if own.thousands else ''}.{own.decimals}f}"
    if negative and own.before.endswith("(") and own.after.startswith(")"):  # how accountants write a minus
        own, negative = own._replace(before=own.before[:-1], after=own.after[1:]), False
    minus = "-" if value < 0 and not negative and digits.strip("0.,") else ""
    return f"{minus}{own.before}{digits}{own.after}".strip()


def _is_finite(value: float, scale: float) -> bool:
    try:
        return math.isfinite(value * scale)
    except OverflowError:
        return False


@lru_cache(maxsize=256)
def _shape(number_format: str, below_zero: bool, is_zero: bool) -> tuple[NumberShape, bool] | None:
    """The section for a number, and whether it is made for negative ones, so that it says the minus itself."""
    sections = _SECTION.split(number_format)
    place = 1 if below_zero and len(sections) > 1 else 2 if is_zero and len(sections) > 2 else 0
    section = _CURRENCY.sub(lambda found: '"' + found[1] + '"', sections[place])
    section = _BRACKETS.sub("", section)
    literals: list[str] = []

    def keep(found: re.Match[str]) -> str:
        literals.append(found[1] or found[2] or "")
        return chr(0xE000 + len(literals) - 1)

    pattern = _LITERAL.sub(keep, section)
    digits = _DIGITS.search(pattern)
    if digits is None or len(_DIGITS.findall(pattern)) > 1 or re.search(r"[a-df-zE/@]", pattern, re.IGNORECASE):
        return None
    code = digits.group().rstrip(",")
    scale = (100.0 if "%" in pattern else 1.0) / 1000 ** (len(digits.group()) - len(code))
    whole, _, decimals = code.partition(".")
    before, after = (
        "".join(dict(enumerate(literals, 0xE000)).get(ord(letter), letter) for letter in part)
        for part in (pattern[: digits.start()], pattern[digits.end() :])
    )
    return NumberShape(before.lstrip(), after.rstrip(), len(decimals), "," in whole, scale), place == 1


def formatted_date(value: datetime.date | datetime.time | datetime.timedelta, number_format: str | None) -> str:
    """Write a date or time; of a date, the parts that its format shows."""
    if not isinstance(value, datetime.date):
        return spreadsheet_date(value)
    known = number_format if number_format and len(number_format) <= LONGEST else ""
    pattern = _BRACKETS.sub("", _SECTION.split(known)[0]).lower()
    parts = set(_DATE_PART.findall(pattern))
    names = parts & {"mmm", "mmmm"}
    has_time = bool(parts & {"h", "hh"})
    if has_time or not parts or (not names and _shows(parts, "y") and _shows(parts, "d")):
        return spreadsheet_date(value)
    pattern = _LITERAL.sub(lambda found: found[2] or "", pattern)
    return _DATE_PART.sub(lambda found: _part(value, found.group().lower()), pattern).strip()


def _shows(parts: set[str], letter: str) -> bool:
    return any(part.startswith(letter) for part in parts)


def _part(value: datetime.date, part: str) -> str:
    codes = {"yyyy": "%Y", "yy": "%Y", "mmmm": "%B", "mmm": "%b", "dddd": "%A", "ddd": "%a", "mm": "%m", "dd": "%d"}
    if part in codes:
        return value.strftime(codes[part])
    return {"d": str(value.day), "m": str(value.month)}.get(part, "")
