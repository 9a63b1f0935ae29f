"""Numbers in cells as people write them: signs, currencies, percent, units, magnitudes, fractions, grouped digits.

Dates and times are read as one number that compares with others of the column.

A cell alone does not tell whether 1.204 is a little over one or over a thousand, or whether (12) is a minus; `Amount`
leaves this open, and `column_format` decides it for the whole column.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from mate_cli.tables.values.number_words import (
    CODES_OF_SIGNS,
    CURRENCIES,
    CURRENCY_SIGNS,
    CURRENCY_WORDS,
    DATE_WORDS,
    KNOWN_UNITS,
    MAGNITUDES,
    MONTHS,
    NO_UNITS,
    PREFIXED_MAGNITUDES,
    SHORT_MAGNITUDES,
    UNIT_NAMES,
)

MAX_LENGTH = 60
"""Characters of the longest cell that is looked at as a number."""
MAX_UNIT_WORDS = 3

_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\t\n\r"
_INVISIBLE = "\u200b\u200e\u200f\u2060\u202a\u202b\u202c\u2066\u2067\u2069\ufeff\u00ad"
_PLAIN = str.maketrans(
    dict.fromkeys(_SPACES, " ")
    | dict.fromkeys(_INVISIBLE, "")
    | dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\ufe63\uff0d", "-")
    | dict.fromkeys("\u2019\u02bc\u2032\u00b4\u066c", "'")
    | {"\u066b": "\u066b", "\uff0c": ",", "\uff0e": ".", "\uff05": "%", "\u066a": "%", "\uff08": "(", "\uff09": ")"}
    | {"\uff04": "$", "\uffe5": "¥", "\uffe1": "£", "\uff0b": "+", "\u2044": "/", "\u00d7": "x", "\u22c5": "x"}
)
_LINES = re.compile(r"(?<=\d)\s*\n\s*(?=\d)")
"""A line break between two numbers."""
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_POWER = re.compile(r"(?<=10)[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+")

_NUMBER = r"\d(?:[\d.,' ]*\d)?"
_EXPONENT = r"(?:[eE][+-]?\d{1,3}| ?[x*·] ?10(?:\^[+-]?|[+-])\d{1,3})"
_CORE = re.compile(
    r"(?:(?P<whole>\d+(?=[ ¼-¾⅐-⅞])) ?)?(?:(?P<part>[¼-¾⅐-⅞])(?!\d)|(?P<over>\d+)/(?P<under>[1-9]\d*)(?![\d/]))"
    r"|(?<![\w.,])10\^(?P<power>[+-]?\d{1,3})"
    rf"|(?P<number>(?:(?<![\w.,])[.,])?{_NUMBER})(?P<exponent>{_EXPONENT})?"
)
_MANTISSA = re.compile(r"^ ?[x*·] ?10\^?|^[eE]")
_SIGNS, _WORDS = re.compile(r"[()+%-]"), re.compile(r"[^ ()+%-]+")
_FOOTNOTES = re.compile(r"(?:(?<![^\W\d_])[¹²³⁰⁴-⁹ᵃᵇᶜᵈᵉ]+|\s*(?:\[[^\[\]]{1,6}\]|[*†‡§#]+|\([a-z]\)))+$")
_NO_CENTS = re.compile(r"(?<=\d)([,.:])-{1,2}(?!\d)")
_LETTER = r"[^\W\d_]"
TEXT = re.compile(
    rf"\D*(?:{_LETTER}{{5}}|[\d.,' ]+{_LETTER}+\d+{_LETTER}|\d[\d.,' ]*[^\d\[]*?{_LETTER}{{3}}[^\d\[]*\d)"
    r"|(?:(?:1\d|20)\d0s|\+ ?(?:\d ?){10,15}|\(?[+-]?\d+[.,]\d+\.)$"
)
"""Begin of a text with digits: a long word before them, words amid them, a decade, a telephone number, or a day."""
_PARTS = re.compile(r"[()+-]|[^\s()+-]+")
_UNIT = re.compile(r"(?:/ ?)?[^\W\d_][^\d,;:\"'=<>~?!&|_]*")
_CODE_BEFORE, _CODE_BEHIND = re.compile(r"[A-Za-z]-?$|\bR $"), re.compile("[A-UX-Z]")
MAX_VOLTS = 4
"""Digits of a number of volts or watts at most, whose letter may stand right behind it."""
_PREFIXED_DOLLAR = re.compile(r"[A-Za-z]{1,3}\$|[A-Z]{2}[€£]")

_DECIMALS = {".": r"(?:\.\d+)?", ",": r"(?:,\d+)?"}
_GROUPS = {
    ".": rf"(?:[1-9]\d{{0,2}}(?:,\d{{3}})+|[1-9]\d?(?:,\d\d)+,\d{{3}}|\d+){_DECIMALS['.']}|\.\d+",
    ",": rf"(?:[1-9]\d{{0,2}}(?:\.\d{{3}})+|\d+){_DECIMALS[',']}|,\d+",
}
_APART = {
    mark: rf"[1-9]\d{{0,2}}(?: \d{{3}})+{tail}|[1-9]\d{{0,2}}(?:'\d{{3}})+{tail}" for mark, tail in _DECIMALS.items()
}
_FORMS = {mark: re.compile(f"{_GROUPS[mark]}|{_APART[mark]}") for mark in ".,"}
_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]\d|\d)"
_ADDRESS = re.compile(rf"(?:{_BYTE}\.){{3}}{_BYTE}")


class Amount(NamedTuple):
    """A cell that may be a number, its digits not yet read.

    Args:
        digits: digits and the marks between them, such as "1.234,5"; of fractions, their value.
        negative: there is a minus.
        parentheses: all of it stands in parentheses.
        power: of ten, that it is multiplied by.
        unit: currency, percent or unit; "" for none.
        is_fraction: it is written with a fraction, such as 3½.
        is_lone_fraction: it is nothing but a/b, which may as well be a date or a ratio.
        attached: the unit follows without a space, in letters that have a case, as in 747SP.
        is_code: letters stand right beside bare digits, as in TL-23025, RM1 and 395000A, which may as well be names.
    """

    digits: str
    negative: bool = False
    parentheses: bool = False
    power: int = 0
    unit: str = ""
    is_fraction: bool = False
    is_lone_fraction: bool = False
    attached: bool = False
    is_code: bool = False


def simplify(text: str) -> str:
    """Replace other alphabets' digits, and the many spaces, dashes and apostrophes, by those of ASCII."""
    if "\n" in text:
        text = _LINES.sub("; ", text)
    if text.isascii():
        return " ".join(text.split()) if "  " in text or "\n" in text or "\t" in text else text
    text = _POWER.sub(lambda power: "^" + power[0].translate(_SUPERSCRIPTS), text.translate(_PLAIN))
    text = "".join(str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in text)
    if "\u066b" in text:
        text = text.replace(",", "'").replace("\u066b", ".")
    return " ".join(text.split())


@lru_cache(maxsize=1 << 15)
def parse_amount(text: str) -> Amount | None:
    """Part a simplified cell into sign, currency, digits, magnitude and unit; None where it is no number.

    Dates, times, ranges, bounds, identifiers and texts with several numbers are none.
    """
    if len(text) > MAX_LENGTH or TEXT.match(text):
        return None
    if "-" in text:
        text = _NO_CENTS.sub(lambda mark: "" if mark[1] == ":" else f"{mark[1]}0", text)
    core = _CORE.search(text)
    if core is None:
        return None
    before = _parse_before(text[: core.start()])
    after = before and _parse_after(text[core.end() :], before)
    if not before or after is None or (before.unit.casefold() in CURRENCY_WORDS and core[0].isdecimal()):
        return None
    is_code = core[0].isdecimal() and (
        _CODE_BEFORE.search(text[: core.start()])
        or (_CODE_BEHIND.fullmatch(text, core.end()) and not before.unit)
        or (text[core.end() :] in ("V", "W") and len(core[0]) > MAX_VOLTS)
    )
    amount = after._replace(negative=after.negative or before.negative, is_code=bool(is_code))
    if core["part"] or core["over"]:
        part = unicodedata.numeric(core["part"]) if core["part"] else int(core["over"]) / int(core["under"])
        if core["whole"] and part > 1:
            return None
        is_lone = not core["part"] and not core["whole"]
        digits = repr(int(core["whole"] or 0) + part)
        return amount._replace(digits=digits, is_fraction=not is_lone, is_lone_fraction=is_lone)
    if core["power"]:
        return amount._replace(digits="1", power=amount.power + int(core["power"]))
    exponent = core["exponent"] or ""
    if exponent[:1] == "E" and exponent[1].isdigit() and core["number"].isdecimal():
        return None  # 12E4 is a name
    return amount._replace(digits=core["number"], power=amount.power + int(_MANTISSA.sub("", exponent) or 0))


def _parse_before(text: str) -> Amount | None:
    """Return the sign, opening parenthesis, percent sign or words of a currency in any order, each sign once."""
    signs, words = _SIGNS.findall(text.replace("+", "-")), _WORDS.findall(text)
    if ")" in signs or len({*signs}) < len(signs) or (words and "%" in signs) or not all(map(is_currency, words)):
        return None
    unit = " ".join(words) or "%" * ("%" in signs)
    return Amount("", "-" in text, "(" in signs, unit=unit, attached="-" in signs)


def is_currency(word: str) -> bool:
    """Tell whether a word or sign is that of a currency."""
    return word in CURRENCIES or word.casefold() in CURRENCY_WORDS or _PREFIXED_DOLLAR.fullmatch(word) is not None


def _parse_after(text: str, before: Amount) -> Amount | None:
    """Read closing parenthesis, trailing minus, magnitude, currency, unit and footnote marks behind the digits."""
    text = _FOOTNOTES.sub("", text).removesuffix(" ")
    text = "" if text == "." else text
    parentheses, negative, words = 0, False, list[str]()
    for part in _PARTS.findall(text):
        if part == ")":
            parentheses += 1
        elif part == "-" and not (negative or before.attached or before.parentheses):
            negative = True
        elif part in "(+-":
            return None
        else:
            words.append(part)
    amount = _measure(words, before.unit)
    if amount is None or parentheses != before.parentheses:
        return None
    if negative and words and not text.endswith("-") and not (text.startswith("- ") and is_currency(words[-1])):
        return None  # 12-inch
    attached = text[:1].upper() != text[:1].lower() and amount.unit != "" and not amount.power
    return amount._replace(negative=negative, parentheses=before.parentheses, attached=attached)


def _measure(words: list[str], before: str) -> Amount | None:
    """Return the magnitude and unit of the words behind the digits; None where they are neither."""
    words = [piece for word in words for piece in _split_currency(word)]
    money = {word for word in (*before.split(), *words) if is_currency(word)}
    power, rest = 0, list[str]()
    for word in words:
        if not rest and word.casefold() in MAGNITUDES:
            power += MAGNITUDES[word.casefold()]
        elif not rest and not power and money and word in SHORT_MAGNITUDES:
            power = SHORT_MAGNITUDES[word]
        elif word not in money and word != "de":
            rest.append(word)
    currency, unit = _name_currency(money), _name_unit(" ".join(rest))
    if currency is None or unit is None or (rest and before == "%"):
        return None
    if rest and currency and not unit.startswith(("/", "per ")):
        return None
    return Amount("", power=power, unit=f"{currency} {unit}".strip() or before)


def _name_currency(words: set[str]) -> str | None:
    """Return the currency of its words, such as $ and USD; "" for none, None where they differ."""
    if len(words) < 2:
        return next(iter(words), "")
    first, second = sorted(words, key=CODES_OF_SIGNS.__contains__)
    return first if len(words) == 2 and first in CODES_OF_SIGNS.get(second, "").split() else None


def _name_unit(text: str) -> str | None:
    """Return the unit of the words behind a number in the singular; "" for none, None where they are none."""
    unit = UNIT_NAMES.get(text, text).replace(" / ", "/")
    if not unit or unit in KNOWN_UNITS:
        short = unit.removesuffix("s")
        return short if short in KNOWN_UNITS and len(short) > 1 else unit
    words = text.split()
    is_unit = len(words) <= MAX_UNIT_WORDS and _UNIT.fullmatch(unit)
    is_other = not NO_UNITS.isdisjoint(words) or not DATE_WORDS.isdisjoint(text.casefold().split())
    return unit.removesuffix("s") if is_unit and not is_other else None


def _split_currency(word: str) -> list[str]:
    """Part "€m", "m€" and "TEUR" into currency and magnitude."""
    if len(word) < 2 or is_currency(word):
        return [word]
    if word[0] in CURRENCY_SIGNS:
        return [word[0], word[1:]]
    for size in (1, 2, 3):
        head, tail = word[:-size], word[-size:]
        if is_currency(tail) and (head in SHORT_MAGNITUDES or head.casefold() in MAGNITUDES):
            return [PREFIXED_MAGNITUDES.get(head, head), tail]
    return [word]


@lru_cache(maxsize=1 << 15)
def find_decimal_marks(digits: str) -> str:
    """Return the decimal marks, of "." and ",", with which digits are one number: ".", ",", both, or none of them."""
    return "".join(mark for mark, form in _FORMS.items() if form.fullmatch(digits))


def read_digits(digits: str, decimal: str) -> str | None:
    """Write digits as Python does, given their decimal mark; None where they are no number, or an IP address."""
    if not _FORMS[decimal].fullmatch(digits) or _ADDRESS.fullmatch(digits):
        return None
    return digits.translate(dict.fromkeys(map(ord, {*"., '"} - {decimal}))).replace(decimal, ".")


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
