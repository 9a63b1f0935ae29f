"""Numbers in cells as people write them: signs, currencies, percent, units, magnitudes, fractions, grouped digits.

Dates and times are read as one number that compares with others of the column.

A cell alone does not tell whether 1.204 is a little over one or over a thousand, or whether (12) is a minus; `Amount`
leaves this open, and `column_format` decides it for the whole column.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from mate_cli.tables.values.number_words import (
    CURRENCIES,
    CURRENCY_SIGNS,
    CURRENCY_WORDS,
    DATE_WORDS,
    KNOWN_UNITS,
    MAGNITUDES,
    MONTHS,
    NO_UNITS,
    ORDINALS,
    PREFIXED_MAGNITUDES,
    SHORT_MAGNITUDES,
    SIGNED_CODES,
    UNIT_NAMES,
)

MAX_LENGTH = 60
"""Characters of the longest cell that is looked at as a number."""
MAX_UNIT_WORDS = 3
POINT, COMMA, POINT_OR_GROUP, COMMA_OR_GROUP = "1.5", "1,5", "1.234", "1,234"
PLAIN, FRACTION, LONE_FRACTION, LIST = "1 234", "1½", "1/2", "1.2.3"
"""Kinds of cells with digits."""
MINUS, CODE = "(1)", "A1"
DOUBTS = frozenset([MINUS, CODE, LONE_FRACTION])
"""Cells that may be no numbers: parentheses around an integer may mark a note, and 2009- is the time since a year;
letters right beside bare digits, as in TL-23025, RM1 and 395000A, are names; 1/2 may be a date or a ratio."""

_INVISIBLE = "\u200b\u200e\u200f\u2060\u202a\u202b\u202c\u2066\u2067\u2069\ufeff\u00ad"
_PLAIN = str.maketrans(
    dict.fromkeys(_INVISIBLE, "")
    | dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\ufe63\uff0d", "-")
    | dict.fromkeys("\u2019\u02bc\u2032\u00b4\u066c", "'")
    | {"\uff0c": ",", "\uff0e": ".", "\uff05": "%", "\u066a": "%", "\uff08": "(", "\uff09": ")", "\uff0b": "+"}
    | {"\uff04": "$", "\uffe5": "¥", "\uffe1": "£", "\u2044": "/", "\u00d7": "x", "\u22c5": "x", "\u066b": "."}
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
_TIMES_TEN = re.compile(r"^ ?[x*·] ?10\^?|^[eE]")
_NO_SIGNS, _WORDS = re.compile(r"[^()+#-]+"), re.compile(r"%|[^\s()+%-]+")
_SIGNED = re.compile(r"[+-]?#|#-|[+-]?\(#\)|\([+-]#\)")
"""Signs around digits, which are written #, in their order."""
_FOOTNOTES = re.compile(r"(?:^\.)?(?:(?<![^\W\d_])[¹²³⁰⁴-⁹ᵃᵇᶜᵈᵉ]+|\s*(?:\[[^\[\]]{1,6}\]|[*†‡§#]+|\([a-z]\)))* ?$")
_NO_CENTS = re.compile(r"(?<=\d)([,.:])-{1,2}(?!\d)")
_LETTER = r"[^\W\d_]"
_TEXT = re.compile(
    rf"\D*(?:{_LETTER}{{5}}|[\d.,' ]+{_LETTER}+\d+{_LETTER}|\d[\d.,' ]*[^\d\[]*?{_LETTER}{{3}}[^\d\[]*\d)"
    r"|(?:(?:1\d|20)\d0s|\+ ?(?:\d ?){10,15}|\(?[+-]?\d+[.,]\d+\.)$"
)
"""Begin of a text with digits: a long word before them, words amid them, a decade, a telephone number, or a day."""
_UNIT = re.compile(r"(?:/ ?)?[^\W\d_][^\d,;:\"'=<>~?!&|_]*")
_CODE = re.compile(r".*(?:[A-Za-z]-?|\bR )#.*|[-+( ]*#[A-UX-Z]")
"""What stands around bare digits, which are written #, where letters stand right beside them."""
MAX_VOLTS = 4
"""Digits of a number of volts or watts at most, whose letter may stand right behind it."""
_PREFIXED_DOLLAR = re.compile(r"[A-Za-z]{1,3}\$|[A-Z]{2}[€£]")

_LAKHS = r"|[1-9]\d?(?:,\d\d)+,\d{3}"
_FORMS = {
    decimal: re.compile(
        rf"(?:\d+|[1-9]\d{{0,2}}([{group}' ])\d{{3}}(?:\1\d{{3}})*{lakhs})(?:\{decimal}\d+)?|\{decimal}\d+"
    )
    for decimal, group, lakhs in ((".", ",", _LAKHS), (",", ".", ""))
}
"""Digits that are one number, by the decimal mark."""
_POINTS = {".": str.maketrans("", "", ",' "), ",": str.maketrans(",", ".", ".' ")}
"""Writes such a number as Python does."""
_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]\d|\d)"
_ADDRESS = re.compile(rf"(?:{_BYTE}\.){{3}}{_BYTE}")
YEAR = r"(?:1[5-9]|20)\d\d"
_SINCE_YEAR = re.compile(rf"{YEAR} ?-")


class Amount(NamedTuple):
    """A cell that may be a number.

    Args:
        digits: digits and the marks between them, such as "1.234,5"; of fractions, their value.
        kind: what the digits are evidence of.
        values: the number by decimal mark.
        unit: currency, percent or unit; "" for none.
        doubts: for which other cells must speak: some of `DOUBTS`, and a unit that counts only if most cells of a
            column have it; "" for one that never does.
    """

    digits: str
    kind: str
    values: Mapping[str, float]
    unit: str
    doubts: frozenset[str]


def simplify(text: str) -> str:
    """Replace other alphabets' digits, and the many spaces, dashes and apostrophes, by those of ASCII."""
    if "\n" in text:
        text = _LINES.sub("; ", text)
    if text.isascii():
        return " ".join(text.split()) if "  " in text or "\n" in text or "\t" in text else text
    text = _POWER.sub(lambda power: "^" + power[0].translate(_SUPERSCRIPTS), text.translate(_PLAIN))
    text = "".join(str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in text)
    return " ".join(text.split())


@lru_cache(maxsize=1 << 15)
def parse_amount(text: str) -> Amount | None:
    """Part a simplified cell into sign, currency, digits, magnitude and unit; None where it is no number.

    Dates, times, ranges, bounds, identifiers and texts with several numbers are none.
    """
    if len(text) > MAX_LENGTH or _TEXT.match(text):
        return None
    if "-" in text:
        text = _NO_CENTS.sub(lambda mark: "" if mark[1] == ":" else f"{mark[1]}0", text)
    core = _CORE.search(text)
    if core is None:
        return None
    before, after = text[: core.start()], _FOOTNOTES.sub("", text[core.end() :], count=1)
    around = f"{before}#{after}"
    signs = _NO_SIGNS.sub("", around)
    first, last = _WORDS.findall(before), _WORDS.findall(after)
    if not _SIGNED.fullmatch(signs) or (measure := _measure(first, last)) is None:
        return None
    kind, digits, numbers, exponent = _read_core(core)
    is_bare = core[0].isdecimal()
    if not digits or (is_bare and first and first[0].casefold() in CURRENCY_WORDS):
        return None
    if signs == "#-" and last and not after.endswith("-") and not (after[:2] == "- " and is_currency(last[-1])):
        return None  # 12-inch
    power, unit = measure[0] + exponent, measure[1]
    is_code = is_bare and (_CODE.fullmatch(around) or (after in ("V", "W") and len(digits) > MAX_VOLTS))
    is_note = "(" in signs and "-" not in signs and digits.isdecimal() and unit != "%" and not is_currency(unit)
    doubts = {MINUS: is_note or _SINCE_YEAR.fullmatch(text), CODE: is_code, LONE_FRACTION: kind == LONE_FRACTION}
    unit_doubts = () if power else _find_unit_doubts(unit, is_bare, after)
    sign = "-" if "-" in signs or "(" in signs else ""
    values = {mark: float(f"{sign}{number}e{power}") for mark, number in numbers.items()}
    return Amount(digits, kind, values, unit, frozenset([*filter(doubts.get, doubts), *unit_doubts]))


def _read_core(core: re.Match[str]) -> tuple[str, str, dict[str, str], int]:
    """Return the kind, the digits, the number by decimal mark and the power of ten of what no sign or word is in.

    The digits are "" where it is none.
    """
    if core["part"] or core["over"]:
        part = unicodedata.numeric(core["part"]) if core["part"] else int(core["over"]) / int(core["under"])
        digits = f"{Decimal(int(core['whole'] or 0) + part):f}" if part <= 1 or not core["whole"] else ""
        kind = FRACTION if core["part"] or core["whole"] else LONE_FRACTION
        return kind, digits, dict.fromkeys(_FORMS, digits), 0
    if core["power"]:
        return PLAIN, "1", dict.fromkeys(_FORMS, "1"), int(core["power"])
    digits, exponent = core["number"], core["exponent"] or ""
    if exponent[:1] == "E" and exponent[1].isdigit() and digits.isdecimal():
        return PLAIN, "", {}, 0  # 12E4 is a name
    marks = [mark for mark, form in _FORMS.items() if form.fullmatch(digits)]
    numbers = {} if _ADDRESS.fullmatch(digits) else {mark: digits.translate(_POINTS[mark]) for mark in marks}
    group = next((mark for mark in ",." if mark in digits), " ")
    kinds = {"": LIST, ".": POINT, ",": COMMA, ".,": {",": COMMA_OR_GROUP, ".": POINT_OR_GROUP, " ": PLAIN}[group]}
    return kinds["".join(marks)], digits, numbers, int(_TIMES_TEN.sub("", exponent) or 0)


def is_currency(word: str) -> bool:
    """Tell whether a word or sign is that of a currency."""
    return word in CURRENCIES or word.casefold() in CURRENCY_WORDS or _PREFIXED_DOLLAR.fullmatch(word) is not None


def _measure(before: list[str], after: list[str]) -> tuple[int, str] | None:
    """Return the magnitude and unit of the words around the digits; None where they are neither."""
    if before == ["%"]:
        before, after = [], ["%", *after]
    words = [piece for word in after for piece in _split_currency(word)]
    money = {*filter(is_currency, (*before, *words))}
    power, rest = 0, list[str]()
    for word in words:
        letters = SHORT_MAGNITUDES.get(word, 0) if money and not power else 0
        magnitude = MAGNITUDES.get(word.casefold(), letters)
        if magnitude and not rest:
            power += magnitude
        elif word not in money and word != "de":
            rest.append(word)
    unit, currency = _name_unit(" ".join(rest)), max(money, key=len, default="")
    is_money = sorted(before) == sorted(money.intersection(before)) and all(
        f"{sign}{currency.upper()}" in SIGNED_CODES for sign in money - {currency}
    )
    if unit is None or not is_money or (rest and money and not unit.startswith(("/", "per "))):
        return None
    return power, f"{currency} {unit}".strip()


def _name_unit(text: str) -> str | None:
    """Return the unit of the words behind a number in the singular; "" for none, None where they are none."""
    unit = UNIT_NAMES.get(text, text).replace(" / ", "/")
    if not unit or unit in KNOWN_UNITS:
        short = unit.removesuffix("s")
        return short if short in KNOWN_UNITS and len(short) > 1 else unit
    words = text.split()
    is_unit = text not in ORDINALS and len(words) <= MAX_UNIT_WORDS and _UNIT.fullmatch(unit)
    is_other = not NO_UNITS.isdisjoint(words) or not DATE_WORDS.isdisjoint(text.casefold().split())
    return unit.removesuffix("s") if is_unit and not is_other else None


def _find_unit_doubts(unit: str, is_bare: bool, after: str) -> tuple[str, ...]:
    """Return the unit, where it counts only if most cells of a column have it; "" where it never does.

    Nothing for no unit, known ones and money. A letter as in 1F may also be part of a name.
    """
    is_attached = after[:1].upper() != after[:1].lower()
    is_letter = is_attached and len(unit) == 1 and unit.isupper()
    if not unit or is_currency(unit) or (unit in KNOWN_UNITS and not is_letter):
        return ()
    is_name = is_bare and any(word[0].isupper() for word in unit.split()[1:])  # 12 Main St
    return ("" if is_name or (is_attached and (unit not in KNOWN_UNITS or unit in "KB")) else unit,)


def _split_currency(word: str) -> list[str]:
    """Part "€m", "m€" and "TEUR" into currency and magnitude."""
    for cut in range(1, 0 if is_currency(word) else len(word)):
        head, tail = word[:cut], word[cut:]
        if head in CURRENCY_SIGNS:
            return [head, tail]
        if is_currency(tail) and (head in SHORT_MAGNITUDES or head.casefold() in MAGNITUDES):
            return [PREFIXED_MAGNITUDES.get(head, head), tail]
    return [word]


_ZONE = r"(?:Z|[+-]\d\d:?\d\d)?"
_HALF = r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
_TIME = rf"(?:[ T,]+(?P<h>\d{{1,2}}):(?P<min>\d\d)(?::(?P<s>\d\d(?:\.\d+)?))?{_HALF} ?{_ZONE})?"
_NAME = r"(?:de )?(?P<name>[^\W\d_]{3,12})\.?"
_DAY = r"(?P<d>\d{1,2})(?:st|nd|rd|th|\.)?"
NUMERIC_DATE = re.compile(
    rf"(?P<first>\d{{1,2}})(?P<mark>[./-])(?P<second>\d{{1,2}})(?P=mark)(?P<y>\d{{4}}|\d\d){_TIME}"
)
"""A date such as 01/02/2024, of which only other cells tell whether the day comes first."""
_DATES = (
    re.compile(rf"(?P<sign>[+-]?) ?(?P<h>\d{{1,5}}):(?P<min>[0-5]\d)(?::(?P<s>[0-5]\d(?:\.\d+)?))?{_HALF}"),
    re.compile(r"(?P<sign>[+-]?) ?(?P<min>\d{1,5}):(?P<s>[0-5]\d\.\d+)"),
    re.compile(r"(?P<sign>)(?P<h>\d\d)\.(?P<min>[0-5]\d)"),
    re.compile(r"(?P<m>\d\d)\.(?P<y>\d{4})"),
    NUMERIC_DATE,
    re.compile(rf"(?P<y>\d{{4}})(?P<mark>[./年-])(?P<m>\d\d?)(?:(?:(?P=mark)|月)(?P<d>\d\d?))?[月日]?{_TIME}"),
    re.compile(rf"{_DAY}[ -]{_NAME} ?,?(?: de)?[ -](?P<y>\d{{4}}){_TIME}"),
    re.compile(rf"{_NAME}(?: {_DAY} ?, ?|,?(?: de)?[ -])(?P<y>\d{{4}}){_TIME}"),
    re.compile(rf"(?P<y>\d{{4}})[ -]{_NAME}[ -]{_DAY}{_TIME}"),
    re.compile(r"(?P<y>(?:19|20)\d\d)(?P<m>\d\d)(?P<d>\d\d)(?:(?P<h>\d\d)(?P<min>\d\d)(?P<s>\d\d)?)?"),
    re.compile(rf"(?P<sign>)(?P<s>\d{{1,9}}(?:\.\d+)?) ?(?:{'|'.join(ORDINALS)})\W*(?:\([a-z]\))?"),
)
_CENTURY_BREAK = 69
"""Two-digit years from here on are of the twentieth century, as in POSIX."""


def read_date(text: str, day_first: bool | None) -> float | None:
    """Return the days since year 1 of a date, with its time as a fraction, the seconds of a time, or a place as in 1st.

    None where the text is none, there is no such day, or 01/02/2024 could be either of two days. 1:02 has hours
    first, 1:02.5 minutes.
    """
    match = next(filter(None, (form.fullmatch(text) for form in _DATES)), None)
    if match is None:
        return None
    part = match.groupdict("")
    hour, minute, second = (float(part.get(name) or 0) for name in ("h", "min", "s"))
    if part.get("half"):
        hour = hour % 12 + 12 * (part["half"] in "Pp")
    seconds = hour * 3600 + minute * 60 + second
    if "sign" in part:
        return -seconds if part["sign"] == "-" else seconds
    year = int(part["y"])
    if len(part["y"]) == 2:
        year += 1900 if year >= _CENTURY_BREAK else 2000
    if "first" in part:
        month, day = int(part["first"]), int(part["second"])
        if day_first is None and part["mark"] != "." and month != day:
            return None
        if day_first or part["mark"] == ".":
            month, day = day, month
    else:
        month = MONTHS.get(part["name"].lower(), 0) if "name" in part else int(part["m"])
        day = int(part.get("d") or 1)
    with suppress(ValueError):
        return datetime.date(year, month, day).toordinal() + seconds / 86_400
    return None
