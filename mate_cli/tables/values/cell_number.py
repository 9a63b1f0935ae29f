"""Numbers in cells as people write them: signs, currencies, percent, units, magnitudes, fractions, grouped digits.

A cell alone does not tell whether 1.204 is a little over one or over a thousand, or whether (12) is a minus; `Amount`
leaves this open, and `column_format` decides it for the whole column.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from mate_cli.tables.values.number_words import (
    CURRENCIES,
    CURRENCY_SIGNS,
    DATE_WORDS,
    KNOWN_UNITS,
    MAGNITUDES,
    SHORT_MAGNITUDES,
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
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_POWER = re.compile(r"(?<=10)[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+")

_NUMBER = r"\d(?:[\d.,' ]*\d)?"
_EXPONENT = r"(?:[eE][+-]?\d{1,3}| ?[x*] ?10(?:\^[+-]?|[+-])\d{1,3})"
_CORE = re.compile(
    rf"(?P<half>(?:\d+ ?)?[¼-¾⅐-⅞])(?!\d)"
    rf"|(?P<whole>\d+) (?P<over>\d+)/(?P<under>[1-9]\d*)(?![\d/])"
    rf"|(?P<lone>\d+)/(?P<part>[1-9]\d*)(?![\d/])"
    rf"|(?P<number>(?:(?<![\w.,])[.,])?{_NUMBER})(?P<exponent>{_EXPONENT})?"
)
_BEFORE = re.compile(r"(?P<space> )|(?P<sign>[+-])|(?P<open>\()|(?P<percent>%)|(?P<money>[^\s\d()+%-]+)")
_FOOTNOTES = re.compile(r"(?:(?<![^\W\d_])[¹²³⁰⁴-⁹ᵃᵇᶜᵈᵉ]+|\s*(?:\[[^\[\]]{1,6}\]|[*†‡§#]+|\([a-z]\)))+$")
_NO_CENTS = re.compile(r"[,.]-{1,2}")
_PARTS = re.compile(r"[()+-]|[^\s()+-]+")
_UNIT = re.compile(r"[^\W\d_][^\d,;:\"'=<>~?!&|_]*")
_PREFIXED_DOLLAR = re.compile(r"[A-Z]{1,3}\$|[A-Z]{2}[€£]")

_DECIMALS = {".": r"(?:\.\d+)?", ",": r"(?:,\d+)?"}
_GROUPS = {
    ".": rf"(?:[1-9]\d{{0,2}}(?:,\d{{3}})+|[1-9]\d?(?:,\d\d)+,\d{{3}}|\d+){_DECIMALS['.']}|\.\d+",
    ",": rf"(?:[1-9]\d{{0,2}}(?:\.\d{{3}})+|\d+){_DECIMALS[',']}|,\d+",
}
_APART = {
    mark: rf"[1-9]\d{{0,2}}(?: \d{{3}})+{tail}|[1-9]\d{{0,2}}(?:'\d{{3}})+{tail}" for mark, tail in _DECIMALS.items()
}
_FORMS = {mark: re.compile(f"{_GROUPS[mark]}|{_APART[mark]}") for mark in ".,"}
_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}")


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
        attached: the unit follows without a space, as in 747SP.
    """

    digits: str
    negative: bool = False
    parentheses: bool = False
    power: int = 0
    unit: str = ""
    is_fraction: bool = False
    is_lone_fraction: bool = False
    attached: bool = False


def simplify(text: str) -> str:
    """Replace other alphabets' digits, and the many spaces, dashes and apostrophes, by those of ASCII."""
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
    core = _CORE.search(text) if len(text) <= MAX_LENGTH else None
    if core is None:
        return None
    before = _parse_before(text[: core.start()])
    after = before and _parse_after(text[core.end() :], before)
    if not before or after is None:
        return None
    amount = after._replace(negative=after.negative or before.negative)
    if core["half"]:
        whole, sign = core["half"][:-1].strip(), core["half"][-1]
        return amount._replace(digits=repr(int(whole or 0) + unicodedata.numeric(sign)), is_fraction=True)
    if core["over"]:
        value = int(core["whole"]) + int(core["over"]) / int(core["under"])
        return amount._replace(digits=repr(value), is_fraction=True) if value <= int(core["whole"]) + 1 else None
    if core["lone"]:
        return amount._replace(digits=repr(int(core["lone"]) / int(core["part"])), is_lone_fraction=True)
    exponent = core["exponent"] or ""
    if exponent[:1] == "E" and exponent[1].isdigit() and core["number"].isdecimal():
        return None  # 12E4 is a name
    return amount._replace(digits=core["number"], power=amount.power + _read_power(exponent))


def _read_power(exponent: str) -> int:
    """The power of ten of "e6", "E+06" or " x 10^6"; 0 for none."""
    return int(re.sub(r"^ ?[x*] ?10\^?|^[eE]", "", exponent) or 0)


def _parse_before(text: str) -> Amount | None:
    """Sign, opening parenthesis and currency in any order, each once."""
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        match = _BEFORE.match(text, place)
        kind = match.lastgroup if match else None
        if match is None or kind is None or (kind != "space" and kind in found):
            return None
        if kind == "money" and not is_currency(match[0]):
            return None
        found[kind] = match[0]
        place = match.end()
    if "percent" in found and "money" in found:
        return None
    unit = found.get("money") or ("%" if "percent" in found else "")
    return Amount("", found.get("sign") == "-", "open" in found, unit=unit, attached="sign" in found)


def is_currency(word: str) -> bool:
    """Whether a word or sign is that of a currency."""
    return word in CURRENCIES or _PREFIXED_DOLLAR.fullmatch(word) is not None


def _parse_after(text: str, before: Amount) -> Amount | None:
    """Closing parenthesis, trailing minus, magnitude, currency, unit and footnote marks behind the digits."""
    text = _NO_CENTS.sub("", _FOOTNOTES.sub("", text).removesuffix(" "), count=1)
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
    return amount._replace(
        negative=negative, parentheses=before.parentheses, attached=text[:1].isalpha() and not amount.power
    )


def _measure(words: list[str], currency: str) -> Amount | None:
    """Magnitude and unit of the words behind the digits; None where they are neither."""
    words = [piece for word in words for piece in _split_currency(word)]
    currencies = {word for word in [currency, *words] if is_currency(word)}
    power, rest = 0, list[str]()
    for word in words:
        if not rest and word.casefold() in MAGNITUDES:
            power += MAGNITUDES[word.casefold()]
        elif not rest and not power and currencies and word in SHORT_MAGNITUDES:
            power = SHORT_MAGNITUDES[word]
        elif word not in currencies:
            rest.append(word)
    unit = " ".join(rest)
    if unit and (currency or currencies or not _is_unit(unit)):
        return None
    return Amount("", power=power, unit=unit or currency or "".join(currencies)) if len(currencies) < 2 else None


def _is_unit(text: str) -> bool:
    words = text.casefold().split()
    known = text in KNOWN_UNITS
    return known or (
        _UNIT.fullmatch(text) is not None and len(words) <= MAX_UNIT_WORDS and DATE_WORDS.isdisjoint(words)
    )


def _split_currency(word: str) -> list[str]:
    """Part "€m" and "m€" into currency and magnitude."""
    if len(word) > 1 and word[0] in CURRENCY_SIGNS:
        return [word[0], word[1:]]
    if len(word) > 1 and word[-1] in CURRENCY_SIGNS and not is_currency(word):
        return [word[:-1], word[-1]]
    return [word]


@lru_cache(maxsize=1 << 15)
def find_decimal_marks(digits: str) -> str:
    """The decimal marks, of "." and ",", with which digits are one number: ".", ",", both, or none of them."""
    return "".join(mark for mark, form in _FORMS.items() if form.fullmatch(digits))


def read_digits(digits: str, decimal: str, thousands: str | None = None) -> str | None:
    """Write digits as Python does, given their decimal mark; None where they are no number, or an IP address.

    With a mark between thousands, no other may stand there.
    """
    if not _FORMS[decimal].fullmatch(digits) or (_ADDRESS.fullmatch(digits) and _is_address(digits)):
        return None
    groups = {mark for mark in "., '" if mark in digits} - {decimal}
    if thousands is not None and groups - {thousands}:
        return None
    for mark in groups:
        digits = digits.replace(mark, "")
    return digits.replace(decimal, ".")


def _is_address(digits: str) -> bool:
    return all(int(part) <= 255 for part in digits.split("."))
