"""Parsing of numbers in cells with signs, currencies, percent, units, magnitudes, fractions and grouped digits.

A single cell is ambiguous: 1.204 can be a decimal or 1204, and (12) can be -12 or a note. `Amount` contains all
interpretations of a cell, and `column_format` selects one of them for the whole column.

`read_date` converts dates and times to numbers that sort the cells of a column.
"""

from __future__ import annotations

import datetime
import math
import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from mate_cli.tables.values.number_words import (
    CURRENCIES,
    KNOWN_UNITS,
    MAGNITUDES,
    MONTHS,
    NO_UNITS,
    ORDINALS,
    SHORT_MAGNITUDES,
    SIGNED_CODES,
)

MAX_LENGTH = 60
"""Maximum length of a cell that is parsed as a number, in characters."""
POINT, COMMA, POINT_OR_GROUP, COMMA_OR_GROUP = "1.5", "1,5", "1.234", "1,234"
PLAIN, FRACTION, LONE_FRACTION, LIST = "1 234", "1½", "1/2", "1.2.3"
"""Ways to write the digits of a number. The value of each constant is an example of the notation."""
MINUS, CODE = "(1)", "A1"
DOUBTS = frozenset([MINUS, CODE, LONE_FRACTION])
"""Reasons to doubt that a cell is a number. `MINUS`: an integer in parentheses may be a note, and 2009- means since
2009. `CODE`: letters adjacent to bare digits form a name, as in TL-23025, RM1 and 395000A. `LONE_FRACTION`: 1/2 may be
a date or a ratio."""

_TO_ASCII = str.maketrans(
    dict.fromkeys("\u200b\u200e\u200f\u2060\u202a\u202b\u202c\u2066\u2067\u2069\ufeff\u00ad", "")
    | dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\ufe63\uff0d", "-")
    | dict.fromkeys("\u2019\u02bc\u2032\u00b4\u066c", "'")
    | dict(zip("\u00d7\u22c5\u066a\u066b\uff0c\uff0e\uff05\uff08\uff09\uff0b", "xx%.,.%()+", strict=True))
    | dict(zip("\uff04\uffe1\uffe5", "$£¥", strict=True))
    | {sign: f" {unicodedata.normalize('NFKC', sign)}" for sign in "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
)
_POWER = re.compile(r"(?<=10)[⁻⁰¹²³⁴-⁹]+")

_CORE = re.compile(
    r"(?:(?P<whole>\d+) )?(?P<over>\d+)(?P<slash>[/\u2044])(?P<under>[1-9]\d*)(?![\d/])"
    r"|(?P<number>(?:(?<![\w.,])[.,])?\d(?:[\d.,' ]*\d)?)(?:(?:[eE]| ?[x*·] ?10\^)(?P<power>[+-]?\d{1,3}))?"
)
_NO_SIGNS = re.compile(r"[^()+#-]+")
_WORDS = re.compile(r"[Tt]€|[%€£円元원]|[^\s()+%€£円元원-]+")
"""Words and signs next to digits. T€ means thousands of euros."""
_SIGNED = re.compile(r"[+-]?#|#-|[+-]?\(#\)|\([+-]#\)")
"""Valid signs around digits, in order. # represents the digits."""
_FOOTNOTES = re.compile(r"(?:^\.)?(?:(?<![^\W\d_])[¹²³⁰⁴-⁹ᵃᵇᶜᵈᵉ]+|\s*(?:\[[^\[\]]{1,6}\]|[*†‡§#]+|\([a-z]\)))* ?$")
_NO_CENTS = re.compile(r"(?<=\d)([,.])-{1,2}(?!\d)")
_LETTER = r"[^\W\d_]"
_TEXT = re.compile(
    rf"\D*(?:{_LETTER}{{5}}|[\d.,' ]+{_LETTER}+\d+{_LETTER}|\d[\d.,' ]*[^\d\[]*?{_LETTER}{{3}}[^\d\[]*\d)"
    r"|(?:\d+E\d+|(?:\d{3}\.){3}\d{3}|(?:1\d|20)\d0s|\+ ?(?:\d ?){10,15}|\(?[+-]?\d+[.,]\d+\.)$"
)
"""Start of a cell that is not a number: a long word before the digits, words between digits, a name like 12E4, an IP
address, a decade, a telephone number or a day like 24.12."""
_UNIT = re.compile(r"/? ?[^\W\d_][^\d,;:\"'=<>~?!&|_]*")
_CODE = re.compile(r".*(?:[A-Za-z]-?|\bR )#.*|[-+( ]*#[A-Z]")
"""Text around bare digits if letters are adjacent to the digits. # represents the digits."""
MAX_VOLTS = 4
"""Maximum digits of a number of volts or watts, whose unit V or W may follow without a space."""
_DOLLAR = re.compile(r"[A-Za-z]{1,3}\$")

_LAKHS = r"|[1-9]\d?(?:,\d\d)+,\d{3}"
_FORMS = {
    decimal: re.compile(
        rf"(?:\d+|[1-9]\d{{0,2}}([{group}' ])\d{{3}}(?:\1\d{{3}})*{lakhs})(?:\{decimal}\d+)?|\{decimal}\d+"
    )
    for decimal, group, lakhs in ((".", ",", _LAKHS), (",", ".", ""))
}
"""Patterns of digits that are one number, by decimal mark."""
_POINTS = {".": str.maketrans("", "", ",' "), ",": str.maketrans(",", ".", ".' ")}
"""Translations of such digits to the number syntax of Python, by decimal mark."""
YEAR = r"(?:1[5-9]|20)\d\d"
_SINCE_YEAR = re.compile(rf"{YEAR} ?-")


class Amount(NamedTuple):
    """A cell that may be a number, with its value for each possible decimal mark.

    Args:
        digits: digits and the marks between them, such as "1.234,5". For a fraction, its value.
        kind: notation of the digits, such as `POINT`.
        values: number by decimal mark. Decimal marks that do not fit the digits are missing.
        unit: currency, percent sign or unit. "" for none.
        doubts: doubts that the column must resolve for the cell to be a number: some of `DOUBTS`, and an unknown unit,
            which most cells of the column must share. "" is a doubt that no column resolves.
    """

    digits: str
    kind: str
    values: Mapping[str, Decimal]
    unit: str
    doubts: frozenset[str]


def simplify(text: str) -> str:
    """Replace non-ASCII digits, spaces, dashes and apostrophes by ASCII characters, before numbers are parsed."""
    if not text.isascii():
        text = _POWER.sub(lambda power: "^" + unicodedata.normalize("NFKC", power[0]), text).translate(_TO_ASCII)
        text = "".join(str(unicodedata.decimal(sign, sign)) for sign in text)
    return " ".join(text.replace("\n", "; ").split())


@lru_cache(maxsize=1 << 15)
def parse_amount(text: str) -> Amount | None:
    """Parse a cell such as "-$1.2 million" or "3 km" as a number with its unit, in all possible interpretations.

    Return None if the cell is not a number: a text without digits or with several numbers, a date, time, range, bound
    or identifier.

    Args:
        text: text of the cell after `simplify`.
    """
    if len(text) > MAX_LENGTH or _TEXT.match(text):
        return None
    text = _NO_CENTS.sub(r"\g<1>0", text.removesuffix("/-"))
    core = _CORE.search(text)
    if core is None:
        return None
    prefix, suffix = text[: core.start()], _FOOTNOTES.sub("", text[core.end() :], count=1)
    around = f"{prefix}#{suffix}"
    signs = _NO_SIGNS.sub("", around)
    measure = _measure(_WORDS.findall(prefix), _WORDS.findall(suffix))
    if measure is None or not _SIGNED.fullmatch(signs):
        return None
    # 12-inch is a text, not a negative number.
    if signs == "#-" and not suffix.endswith("-") and not is_currency(suffix[2:]):
        return None
    kind, digits, numbers = _read_core(core)
    if not digits:
        return None
    power, unit = measure
    is_bare = core[0].isdecimal()
    is_note = "(" in signs and "-" not in signs and digits.isdecimal() and unit != "%" and not is_currency(unit)
    is_code = is_bare and _CODE.fullmatch(around) and not (suffix in ("V", "W") and len(digits) <= MAX_VOLTS)
    doubts = {MINUS: is_note or _SINCE_YEAR.fullmatch(text), CODE: is_code, LONE_FRACTION: kind == LONE_FRACTION}
    is_known = power or not unit or is_currency(unit) or (unit in KNOWN_UNITS and not is_code)
    # 12 Main St is a name.
    is_name = suffix[:1].isalpha() or (is_bare and any(word[0].isupper() for word in unit.split()[1:]))
    unit_doubts = () if is_known else ("" if is_name else unit,)
    sign = "-" if "-" in signs or "(" in signs else ""
    values = {mark: Decimal(f"{sign}{number}e{power + int(core['power'] or 0)}") for mark, number in numbers.items()}
    return Amount(digits, kind, values, unit, frozenset([*filter(doubts.get, doubts), *unit_doubts]))


def _read_core(core: re.Match[str]) -> tuple[str, str, dict[str, str]]:
    """Parse the digits of a cell as a number, once for each possible decimal mark.

    Args:
        core: match of `_CORE` in the cell.

    Returns:
        The notation such as `POINT`, the digits ("" if they are not a number), and the number as text by each decimal
        mark that fits the digits.
    """
    if core["over"]:
        part = int(core["over"]) / int(core["under"])
        digits = f"{int(core['whole'] or 0) + part:.17f}" if part <= 1 or not core["whole"] else ""
        kind = FRACTION if core["whole"] or core["slash"] == "\u2044" else LONE_FRACTION
        return kind, digits, dict.fromkeys(_FORMS, digits)
    digits = core["number"]
    decimal_marks = [mark for mark, form in _FORMS.items() if form.fullmatch(digits)]
    group = next((mark for mark in ",." if mark in digits), " ")
    kinds = {"": LIST, ".": POINT, ",": COMMA, ".,": {",": COMMA_OR_GROUP, ".": POINT_OR_GROUP, " ": PLAIN}[group]}
    return kinds["".join(decimal_marks)], digits, {mark: digits.translate(_POINTS[mark]) for mark in decimal_marks}


def is_currency(word: str) -> bool:
    """Return whether a word or sign denotes a currency."""
    return word in CURRENCIES or _DOLLAR.fullmatch(word) is not None


def _measure(prefix: list[str], suffix: list[str]) -> tuple[int, str] | None:
    """Interpret the words before and after a number in a cell as magnitude and unit.

    Args:
        prefix: words before the digits, such as ["$"].
        suffix: words after the digits, such as ["million"].

    Returns:
        The power of ten and the unit: (6, "$") in the example. None if the words are no unit, so that the cell is not
        a number.
    """
    if prefix == ["%"]:
        prefix, suffix = [], ["%", *suffix]
    money = sorted(filter(is_currency, (*prefix, *suffix)))
    if (len(money) > 1 and "".join(money) not in SIGNED_CODES) or not {*prefix} <= {*money}:
        return None
    power, unit_words = 0, list[str]()
    for word in suffix:
        letters = SHORT_MAGNITUDES.get(word, 0) if money and not power else 0
        magnitude = MAGNITUDES.get(word.casefold(), letters)
        if magnitude and not unit_words:
            power += magnitude
        elif word not in (*money, "de"):
            unit_words.append(word)
    unit = _name_unit(" ".join(unit_words).replace(" / ", "/"))
    if unit is None or (unit_words and money and not unit.startswith(("/", "per "))):
        return None
    return power, " ".join(filter(None, (*money[-1:], unit)))


def _name_unit(text: str) -> str | None:
    """Return the unit in the singular, such as "mile" for "miles". Return None if the words are not a unit."""
    unit = text if text in KNOWN_UNITS else text.removesuffix("s")
    if not unit or unit in KNOWN_UNITS:
        return unit
    is_unit = text.count(" ") < 3 and _UNIT.fullmatch(unit) and NO_UNITS.isdisjoint(text.casefold().split())
    return unit if is_unit else None


_HALF = r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
_TIME = rf"(?:[ T,]+(?P<h>\d{{1,2}}):(?P<min>\d\d)(?::(?P<s>\d\d(?:\.\d+)?))?{_HALF} ?(?:Z|[+-]\d\d:?\d\d)?)?"
NUMERIC_DATE = re.compile(
    rf"(?P<first>\d{{1,2}})(?P<mark>[./-])(?P<second>\d{{1,2}})(?P=mark)(?P<y>\d{{4}}|\d\d){_TIME}"
)
"""A date such as 01/02/2024. Other cells determine whether the day comes first."""
_DATES = (
    re.compile(rf"(?P<sign>[+-]?) ?(?P<h>\d{{1,5}}):(?P<min>[0-5]\d)(?::(?P<s>[0-5]\d(?:\.\d+)?))?{_HALF}"),
    re.compile(r"(?P<sign>[+-]?) ?(?P<min>\d{1,5}):(?P<s>[0-5]\d\.\d+)"),
    NUMERIC_DATE,
    re.compile(rf"(?P<y>\d{{4}})[./年-](?P<m>\d\d?)(?:[./月-](?P<d>\d\d?))?[月日]?{_TIME}"),
    re.compile(
        r"(?:(?P<d>\d\d?)(?:st|nd|rd|th)?\W+)?(?:de )?(?P<name>[^\W\d_]{3,12})\W+"
        rf"(?:(?P<day>\d\d?)(?:st|nd|rd|th)?\W+)?(?:de )?(?P<y>\d{{4}}){_TIME}"
    ),
    re.compile(rf"(?P<sign>)(?P<s>\d{{1,15}}(?:\.\d+)?) ?(?:{'|'.join(ORDINALS)})?\W*(?:\([a-z]\))?"),
)
_CENTURY_BREAK = 69
"""First two-digit year of the 20th century, as in POSIX. Lower years are in the 21st century."""


def read_date(text: str, day_first: bool | None) -> float:
    """Convert a date, time or ordinal such as 1st to a number by which the cells of a column can be sorted.

    Args:
        text: a simplified cell.
        day_first: whether 01/02/2024 is in February. None if unknown.

    Returns:
        For a date, the days since year 1, with the time as a fraction. For a time, its seconds: 1:02 has hours and
        minutes, 1:02.5 has minutes and seconds. For an ordinal such as 1st, its number. NaN for other texts, for days
        that do not exist and for 01/02/2024 if `day_first` is None.
    """
    match = next(filter(None, (form.fullmatch(text) for form in _DATES)), None)
    if match is None:
        return math.nan
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
            return math.nan
        if day_first or part["mark"] == ".":
            month, day = day, month
    else:
        month = MONTHS.get(part["name"].lower(), 0) if "name" in part else int(part["m"])
        day = int(part["d"] or part.get("day") or 1)
    with suppress(ValueError):
        return datetime.date(year, month, day).toordinal() + seconds / 86_400
    return math.nan
