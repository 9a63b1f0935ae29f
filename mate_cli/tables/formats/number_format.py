"""Numbers, dates and texts as the number format of a spreadsheet's cell shows them, in English.

Two liberties: a date with day, month and year in digits is written as 2024-03-01, which reads alike everywhere, and
parentheses directly around the digits of a negative number as a minus.

Source: ECMA-376 part 1, sections 18.8.30 (numFmt) and 18.8.31 (numFmts).
"""

from __future__ import annotations

import datetime
import operator
import re
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from mate_cli.tables.formats.cell_text import spreadsheet_date

GENERAL = "General"
_BUILTIN = (
    '1=0|2=0.00|3=#,##0|4=#,##0.00|5="$"#,##0_);("$"#,##0)|6="$"#,##0_);("$"#,##0)|7="$"#,##0.00_);("$"#,##0.00)|'
    '8="$"#,##0.00_);("$"#,##0.00)|9=0%|10=0.00%|11=0.00E+00|12=# ?/?|13=# ??/??|14=m/d/yyyy|15=d-mmm-yy|16=d-mmm|'
    "17=mmm-yy|18=h:mm AM/PM|19=h:mm:ss AM/PM|20=h:mm|21=h:mm:ss|22=m/d/yyyy h:mm|32=h:mm|33=h:mm:ss|34=h:mm AM/PM|"
    "35=h:mm:ss AM/PM|37=#,##0_);(#,##0)|38=#,##0_);(#,##0)|39=#,##0.00_);(#,##0.00)|40=#,##0.00_);(#,##0.00)|"
    '41=_(* #,##0_);_(* (#,##0);_(* "-"_);_(@_)|42=_($* #,##0_);_($* (#,##0);_($* "-"_);_(@_)|'
    '43=_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)|44=_($* #,##0.00_);_($* (#,##0.00);_($* "-"??_);_(@_)|'
    "45=mm:ss|46=[h]:mm:ss|47=mm:ss.0|48=##0.0E+0|49=@|55=h:mm AM/PM|56=h:mm:ss AM/PM"
)
BUILTIN = dict.fromkeys(map(str, (*range(27, 32), 36, *range(50, 55), 57, 58)), "yyyy-mm-dd")
BUILTIN |= dict(pair.split("=", 1) for pair in _BUILTIN.split("|"))
"""The number formats that workbooks need not define, by their ids."""
MAX_LENGTH = 255
"""Characters of a number format that spreadsheet programs take."""
GENERAL_WIDTH = 11
"""Characters of a number in the format General."""
FILL = "\0"
"""The place that is filled to the width of the cell; a unit before it is left out where there are no digits."""
BEYOND = "#NUM!"
"""A number that is too large for spreadsheet programs."""
LAST_DAY = 2958465
"""Serial number of 9999-12-31."""
DAYS_TO_1904 = 1462
"""Days between the two systems of serial numbers."""
_ROUNDED, _CUT = (Context(15, way, Emin=-308, Emax=308, traps=[]) for way in (ROUND_HALF_UP, ROUND_DOWN))
_UNITS = {places: Decimal(1).scaleb(-places) for places in range(10)}
_EXACT = Context(prec=1000, rounding=ROUND_HALF_UP)

_TOKEN = re.compile(r'"[^"]*"?|\\.|[_*].|\[[^\]]*\]|General|AM/PM|A/P|上午/下午|E[+-]|.', re.IGNORECASE | re.DOTALL)
_CODES = {"general": "G", "am/pm": "P", "a/p": "P", "上午/下午": "P", "e": "yyyy", "g": ""}
_SYMBOLS = set("0123456789#?.,%/@ymdhs")
_CONDITION = re.compile(r"\[(<=|>=|<>|<|>|=)\s*(-?\d{1,20}(?:\.\d{1,20})?)\]")
_HOLDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne}
_CURRENCY = re.compile(r"\[\$([^\]-]*)")
_ELAPSED = re.compile(r"\[(h+|m+|s+)\]", re.IGNORECASE)
_GROUPED = re.compile(r"(?<=#)([\ue000-\uf8ff])(?=##[0#])")
_SCALE = re.compile(r"(?<=[0#?.]),+(?=\.|[^0#?]*$)")
_FRACTION = re.compile(r"(?:([0#?]+)([^0#?/]+))?([0#?]+)/([0-9#?]+)")
_MINUTES = re.compile(r"(?<=h)([^a-zA-Z]*)m{1,2}(?!m)|(?<!m)m{1,2}(?=[^a-zA-Z]*s)", re.IGNORECASE)
_DATE_PART = re.compile(r"y+|m+|d+|h+|n+|s+(?:\.0+)?|P", re.IGNORECASE)
_PLAIN = re.compile(r"(?:#,##)?0(?:\.0+)?")
_PLACES = re.compile("[0#?]")
_ACCOUNTING = re.compile(r"\(([\d.,]+)\)")
_NAMES = {"P": "%p", "y": "%y", "yy": "%y", "yyy": "%Y", "yyyy": "%Y", "mmm": "%b", "mmmm": "%B", "mmmmm": "%B"}
_NAMES |= {"ddd": "%a", "dddd": "%A"}


class FormatSection(NamedTuple):
    """One section of a number format.

    Args:
        pattern: its placeholders; a literal text is a character of the private use area, `General` is G, AM/PM is P,
            elapsed hours, minutes and seconds are H, N and S.
        literals: the text of each of those characters.
        condition: an operator and a number.
        group: separator between groups of three digits.
    """

    pattern: str
    literals: dict[int, str]
    condition: tuple[str, Decimal] | None
    group: str
    is_date: bool = False


def parse_number(text: str) -> Decimal:
    """Read a stored number with the 15 digits that spreadsheet programs have; of whole numbers the rest is cut."""
    is_cut = len(text) < MAX_LENGTH and text.lstrip("-").isdigit()
    return (_CUT if is_cut else _ROUNDED).create_decimal(text)


def format_number(number: Decimal, code: str = GENERAL, *, date1904: bool = False) -> str:
    """Write a number in a number format; `BEYOND` for an infinite one."""
    if not number.is_finite():
        return BEYOND
    section, signed = _choose_section(_sections(code), number)
    text = None
    if section.is_date:
        text = _write_date(section, number, date1904)
    elif section is not _GENERAL:
        text = _write_number(section, abs(number))
    if text is None:
        section, signed, text = _GENERAL, False, _write_general(abs(number))
    unit, filled, text = text.translate(section.literals).rpartition(FILL)
    text = (unit + text if filled and re.search("[0-9]", text) else text).replace(FILL, "")
    text = " ".join(filter(None, text.split(" ")))
    if signed:
        text, found = _ACCOUNTING.subn(r"\1", text)
        signed = not found
    return f"-{text}" if number < 0 and not signed and text else text


def format_string(text: str, code: str) -> str:
    """Write a text in a number format, whose fourth or last section can be for texts."""
    sections = _sections(code)
    section = sections[3] if len(sections) > 3 else sections[-1]
    if len(sections) < 4 and "@" not in section.pattern:
        return text
    return text.join(piece.translate(section.literals) for piece in section.pattern.split("@")).replace(FILL, "")


@lru_cache(maxsize=1024)
def _sections(code: str) -> list[FormatSection]:
    sections: list[FormatSection] = []
    pattern, literals, condition = "", dict[int, str](), None
    for token in (*_TOKEN.findall(code if len(code) <= MAX_LENGTH else GENERAL), ";"):
        if token == ";":
            sections.append(_section(pattern, literals, condition))
            pattern, literals, condition = "", {}, None
        elif found := _CONDITION.fullmatch(token):
            condition = found[1], Decimal(found[2])
        elif (symbol := _symbol(token)) is not None:
            pattern += symbol
        elif literal := _literal(token):
            place = 0xE000 + len(literals)
            literals[place] = literal
            pattern += chr(place)
    return sections


def _symbol(token: str) -> str | None:
    low = token.lower()
    if found := _ELAPSED.fullmatch(token):
        return found[1].upper().replace("M", "N")
    if low in ("e+", "e-"):
        return token.upper()
    return _CODES.get(low, low if low in _SYMBOLS else None)


def _literal(token: str) -> str:
    if token.startswith("["):  # a colour, a language or a currency
        found = _CURRENCY.match(token)
        return found[1] if found else ""
    if len(token) > 1 and token[0] in "_*":
        return " " if token[0] == "_" else FILL
    return token[1:] if token[0] == "\\" else token.strip('"')


def _section(pattern: str, literals: dict[int, str], condition: tuple[str, Decimal] | None) -> FormatSection:
    found = _GROUPED.search(pattern)
    group = literals[ord(found[1])] if found else ""
    if found and group in ("\u00a0", "\u202f", " ", "'", "\u2019", "."):
        return FormatSection(pattern.replace(found[1], ""), literals, condition, group)
    group = "," if "," in _SCALE.sub("", pattern) else ""
    return FormatSection(pattern, literals, condition, group, not set("ymdhsHNS").isdisjoint(pattern))


_GENERAL = _section("G", {}, None)


def _choose_section(sections: list[FormatSection], number: Decimal) -> tuple[FormatSection, bool]:
    """Return the section for a number, and whether it says itself that a number is negative."""
    first, *others = sections[:3]
    if first.pattern == "G" and not others:
        return _GENERAL, False
    if not any(section.condition for section in sections[:3]):
        place = 1 if number < 0 and others else 2 if number == 0 and len(others) > 1 else 0
        return sections[place], place == 1
    free = [section for section in sections[:3] if section.condition is None]
    for section in sections[:3]:
        if section.condition and _HOLDS[section.condition[0]](number, section.condition[1]):
            return section, section.condition[0] in ("<", "<=") and section.condition[1] <= 0
    if not free:
        return _GENERAL, False
    return free[0], free[0] is others[0] and first.condition in ((">", Decimal(0)), (">=", Decimal(0)))


def _write_general(number: Decimal) -> str:
    """Write a number in 11 characters; larger ones of 64 bits keep their digits, as identifiers must."""
    plain = format(number.normalize(_ROUNDED), "f")
    if len(plain) <= GENERAL_WIDTH or 10**GENERAL_WIDTH <= number < 2**63:
        return plain
    if Decimal("0.0001") <= number < 10**GENERAL_WIDTH:
        places = max(GENERAL_WIDTH - 1 - len(plain.partition(".")[0]), 0)
        return format(_round(number, places).normalize(_EXACT), "f")
    mantissa, exponent = f"{number:.5E}".split("E")
    return f"{mantissa.rstrip('0').rstrip('.')}E{int(exponent):+03d}"


def _round(number: Decimal, places: int) -> Decimal:
    return number.quantize(_UNITS.get(places) or Decimal(1).scaleb(-places), context=_EXACT)


def _write_number(section: FormatSection, number: Decimal) -> str:
    pattern = section.pattern
    if "G" in pattern or "@" in pattern:
        return re.sub("[G@]", _write_general(number), pattern)
    number *= 100 ** pattern.count("%")
    mantissa, power, after = pattern.partition("E")
    if power:
        return _write_power(mantissa, after, number)
    if found := _FRACTION.search(pattern):
        return pattern[: found.start()] + _write_fraction(found, number) + pattern[found.end() :]
    return _write_fixed(pattern, number, section.group)


def _write_fixed(pattern: str, number: Decimal, group: str = "") -> str:
    """Put the digits of a number into the placeholders 0, # and ? of a pattern."""
    if _PLAIN.fullmatch(pattern):
        return format(_round(number, len(pattern.partition(".")[2])), ",f" if group else "f")
    commas = sum(map(len, _SCALE.findall(pattern)))
    pattern = _SCALE.sub("", pattern).replace(",", "")
    if not _PLACES.search(pattern):
        return pattern
    before, _, after = pattern.partition(".")
    places = "".join(_PLACES.findall(after))
    rounded = format(_round(number.scaleb(-3 * commas, _EXACT), len(places)), "f")
    whole, _, decimals = rounded.partition(".")
    kept = len(places)
    while kept and places[kept - 1] != "0" and decimals[kept - 1] == "0":
        kept -= 1
    digits = iter(decimals[:kept])
    tail = "".join(next(digits, "") if letter in "0#?" else letter for letter in after)
    return _write_whole(before, whole.lstrip("0"), group) + ("." if kept else "") + tail


def _write_whole(pattern: str, digits: str, group: str) -> str:
    """Put digits into placeholders from the right; the leftmost takes all that are left."""
    first = _PLACES.search(pattern)
    if first is None:
        return pattern + digits
    made: list[str] = []
    count = 0
    for place in range(len(pattern) - 1, -1, -1):
        letter = pattern[place]
        if letter not in "0#?":
            made.append(letter)
            continue
        taken = (digits if place == first.start() else digits[-1:]) or {"0": "0", "?": " "}.get(letter, "")
        digits = digits[: -len(taken)]
        for digit in reversed(taken):
            if count and count % 3 == 0:
                made.append(group)
            made.append(digit)
            count += 1
    return "".join(reversed(made))


def _write_power(mantissa: str, after: str, number: Decimal) -> str:
    """Write an exponent that is a multiple of the digits before the point."""
    before, _, decimals = mantissa.partition(".")
    step, places = max(len(_PLACES.findall(before)), 1), len(_PLACES.findall(decimals))
    power = number.adjusted() // step * step if number else 0
    if _round(number.scaleb(-power, _EXACT), places) >= 10**step:
        power += step
    sign = "-" if power < 0 else "+" if after.startswith("+") else ""
    shown = _write_fixed(mantissa, number.scaleb(-power, _EXACT)), _write_fixed(after[1:], abs(Decimal(power)))
    return f"E{sign}".join(shown)


def _write_fraction(found: re.Match[str], number: Decimal) -> str:
    units, between, _, below = found.groups()
    exact = Fraction(number)
    if below.strip("0#?"):
        denominator = int(re.sub("[#?]", "", below)) or 1
        nearest = Fraction(round(exact * denominator), denominator)
    else:
        denominator, nearest = 0, exact.limit_denominator(10 ** min(len(below), 7) - 1)
    whole = int(nearest) if units else 0
    rest = nearest - whole
    if units and not rest:
        return str(whole)
    numerator = rest * denominator if denominator else rest.numerator
    return (f"{whole}{between}" if whole else "") + f"{numerator}/{denominator or rest.denominator}"


def _write_date(section: FormatSection, number: Decimal, date1904: bool) -> str | None:
    """Write a serial number as a date, a time or a duration; None for what is none."""
    pattern = _MINUTES.sub(lambda found: (found[1] or "") + "n" * found[0].lower().count("m"), section.pattern)
    fraction = re.search(r"s\.(0+)", pattern, re.IGNORECASE)
    seconds = _round(abs(number) * 86400, len(fraction[1]) if fraction else 0)
    if set("HNS").isdisjoint(pattern):
        days = int(seconds // 86400) + (DAYS_TO_1904 if date1904 else 0)
        if number < 0 or days > LAST_DAY or (days == 0 and not set("ymd").isdisjoint(pattern)):
            return None
        moment = datetime.datetime(1899, 12, 30 + (days < 60)) + datetime.timedelta(days, int(seconds % 86400))
    else:
        moment = datetime.datetime.min
    dated = {part[0] for part in _DATE_PART.findall(pattern) if part[0] in "ymd" and (part[0] == "y" or len(part) < 3)}
    if dated == set("ymd") and "mmm" not in pattern:
        shown = moment if "h" in pattern else moment.replace(hour=0, minute=0, second=0)
        return spreadsheet_date(shown if "s" in pattern else shown.replace(second=0))
    numbers = {"H": seconds // 3600, "N": seconds // 60, "S": seconds, "h": seconds // 3600 % 24}
    numbers |= {
        "y": Decimal(moment.year),
        "n": seconds // 60 % 60,
        "s": seconds % 60,
        "m": Decimal(moment.month),
        "d": Decimal(moment.day),
    }
    if "P" in pattern:
        numbers["h"] = Decimal((moment.hour - 1) % 12 + 1)

    def write(found: re.Match[str]) -> str:
        part = found[0]
        names = moment.strftime(_NAMES.get(part, ""))
        return (names[0] if part == "mmmmm" else names) or _write_fixed(re.sub("[a-zA-Z]", "0", part), numbers[part[0]])

    return _DATE_PART.sub(write, pattern)
