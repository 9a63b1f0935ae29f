"""Dates and times in cells, as one number that compares with others of the column."""

from __future__ import annotations

import datetime
import re

from mate_cli.tables.values.number_words import MONTHS

_ZONE = r"(?:Z|[+-]\d\d:?\d\d)?"
_HALF = r"(?P<half>[AaPp]\.?[Mm]\.?)"
_TIME = rf"(?:[ T,]+(?P<h>\d{{1,2}}):(?P<min>\d\d)(?::(?P<s>\d\d(?:\.\d+)?))? ?{_HALF}?{_ZONE})?"
_NAME = r"(?:de )?(?P<name>[^\W\d_]{3,12})\.?"
_DAY = r"(?P<d>\d{1,2})(?:st|nd|rd|th|\.)?"
NUMERIC_DATE = re.compile(
    rf"(?P<first>\d{{1,2}})(?P<mark>[./-])(?P<second>\d{{1,2}})(?P=mark)(?P<y>\d{{4}}|\d\d){_TIME}"
)
"""A date such as 01/02/2024, of which only other cells tell whether the day comes first."""
_DATES = (
    re.compile(rf"(?P<y>\d{{4}})(?P<mark>[./-])(?P<m>\d{{1,2}})(?:(?P=mark)(?P<d>\d{{1,2}}))?{_TIME}"),
    re.compile(rf"{_DAY}[ -]{_NAME} ?,?(?: de)?[ -](?P<y>\d{{4}}){_TIME}"),
    re.compile(rf"{_NAME} {_DAY} ?, ?(?P<y>\d{{4}}){_TIME}"),
    re.compile(rf"{_NAME},?(?: de)?[ -](?P<y>\d{{4}}){_TIME}"),
    re.compile(rf"(?P<y>\d{{4}})[ -]{_NAME}[ -]{_DAY}{_TIME}"),
    re.compile(r"(?P<y>(?:19|20)\d\d)(?P<m>\d\d)(?P<d>\d\d)(?P<h>\d\d)?(?P<min>\d\d)?(?P<s>\d\d)?(?P<half>)"),
    re.compile(rf"(?P<y>\d{{4}})年(?P<m>\d{{1,2}})月(?:(?P<d>\d{{1,2}})日)?{_TIME}"),
)
_CLOCK = re.compile(
    rf"(?P<sign>[+-]?) ?(?P<h>\d{{1,5}}):(?P<min>[0-5]\d)(?::(?P<s>[0-5]\d))?(?P<part>\.\d+)?(?: ?{_HALF})?"
)
_CENTURY_BREAK = 69
"""Two-digit years from here on are of the twentieth century, as in POSIX."""


def read_date(text: str, day_first: bool | None) -> float | None:
    """Return the days since year 1 of a date, with its time as a fraction, or the seconds of a time of day or duration.

    None where the text is neither, there is no such day, or 01/02/2024 could be either of two days.
    """
    if match := _CLOCK.fullmatch(text):
        return _read_clock(match)
    if match := NUMERIC_DATE.fullmatch(text):
        first, second = int(match["first"]), int(match["second"])
        if match["mark"] == ".":
            day_first = True
        elif day_first is None and first != second:
            return None
        year = int(match["y"])
        year += 0 if len(match["y"]) == 4 else 1900 if year >= _CENTURY_BREAK else 2000
        return _moment(match, year, *((second, first) if day_first else (first, second)))
    for form in _DATES:
        if match := form.fullmatch(text):
            fields = match.groupdict()
            month = MONTHS.get(fields["name"].lower()) if "name" in fields else int(fields["m"])
            return _moment(match, int(fields["y"]), month, int(fields.get("d") or 1)) if month else None
    return None


def _read_clock(match: re.Match[str]) -> float:
    """Read the seconds of 1:02:03 and 1:02, hours first, of 1:02.5, minutes first, and of 1:02 pm."""
    fields = [int(match["h"]), int(match["min"]), int(match["s"] or 0)]
    if match["part"] and not match["s"]:
        fields = [0, *fields[:2]]
    seconds = _hour(fields[0], match) * 3600 + fields[1] * 60 + float(f"{fields[2]}{match['part'] or ''}")
    return -seconds if match["sign"] == "-" else seconds


def _hour(hour: int, match: re.Match[str]) -> int:
    return hour % 12 + (12 if match["half"][0] in "Pp" else 0) if match["half"] else hour


def _moment(match: re.Match[str], year: int, month: int, day: int) -> float | None:
    try:
        days = float(datetime.date(year, month, day).toordinal())
    except ValueError:
        return None
    return (
        days
        + (_hour(int(match["h"] or 0), match) * 3600 + int(match["min"] or 0) * 60 + float(match["s"] or 0)) / 86_400
    )
