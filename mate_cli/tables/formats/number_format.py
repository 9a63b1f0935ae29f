"""Stored numbers and dates as the cell of a spreadsheet shows them, in English, in the formats that people meet.

These are integers, decimals, thousands, percent, currencies, units, leading zeros, codes and dates; what else a format
asks for is shown as General. The text is for reading: sums take the stored number.

Source: ECMA-376 part 1, sections 18.8.30 (numFmt) and 18.8.31 (numFmts).
"""

from __future__ import annotations

import datetime
import math
import operator
import re
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from mate_cli.tables.formats.cell_text import spreadsheet_date

GENERAL = "General"
_FROM_1 = """0|0.00|#,##0|#,##0.00|"$"#,##0|"$"#,##0|"$"#,##0.00|"$"#,##0.00|0%|0.00%|0.00E+00|# ?/?|# ??/??
yyyy-m-d|yyyy-m-d|d-mmm|mmm-yy|h:mm AM/PM|h:mm:ss AM/PM|h:mm|h:mm:ss|yyyy-m-d h:mm"""
_FROM_37 = """#,##0|#,##0|#,##0.00|#,##0.00|#,##0;-#,##0;"-"|"$"#,##0;-"$"#,##0;"-"|#,##0.00;-#,##0.00;"-"
"$"#,##0.00;-"$"#,##0.00;"-"|mm:ss|[h]:mm:ss|mm:ss.0|##0.0E+0"""
BUILTIN = dict(enumerate(re.split(r"[|\n]", _FROM_1), 1)) | dict(enumerate(re.split(r"[|\n]", _FROM_37), 37))
"""The number formats that workbooks need not define, by their ids."""
MAX_LENGTH = 255
"""Characters of a number format that spreadsheet programs take."""
GENERAL_WIDTH = 11
"""Characters of a number in the format General."""
_ROUNDED, _CUT = (Context(15, way) for way in (ROUND_HALF_UP, ROUND_DOWN))
_EXACT = Context(1000, ROUND_HALF_UP)

_TOKEN = re.compile(
    r'"([^"]*)"?|\\(.)|(_).?|\*.?|\[\$([^\]-]*)[^\]]*\]|\[(?P<sign>[<>=]+)(?P<than>-?\d{1,20}(?:\.\d{1,20})?)\]'
    r"|(?P<elapsed>\[(?:h+|m+|s+)\])|\[[^\]]*\]|(?P<symbol>General|AM/PM|E[+-]|[0#?.,%/@ymdhs;])|(.)",
    re.IGNORECASE | re.DOTALL,
)
_HOLDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne}
_LITERAL = {code: 0xF000 + code for code in range(128)}
_SHOWN = {literal: code for code, literal in _LITERAL.items()} | {ord("_"): " "}
"""Signs of literal texts while placeholders are filled in, and what they are shown as; _ is the width of a sign."""
_GROUPED = re.compile("(?<=#)([\uf020\uf027\uf02e\u00a0\u202f\u2019])(?=##[0#])")
_SCALE = re.compile(r"(?<=[0#?.]),+(?=\.|[^0#?]*$)")
_POWER = re.compile(r"(?<![0#?.])[0#?](?:\.([0#?]+))?e([+-])([0#?]+)")
_FRACTION = re.compile(r"#([^0#?/]+)(\?+)/\?+")
_MINUTES = re.compile(r"(?<=h)([^a-z]*)m{1,2}(?!m)|(?<!m)m{1,2}(?=[^a-z]*s)")
_DATE_PART = re.compile(r"\[?([ymdhns])\1*\]?(?:\.0+)?|am/pm")
_PLAIN = re.compile(r"(?:#,##)?0(?:\.(0+))?")
_PLACE, _THOUSAND = re.compile("[0#?]"), re.compile(r"(?<=\d)(?=(?:\d{3})+$)")
_ACCOUNTING, _NOTHING = re.compile(r"(\W?)\(([\d.,]+)\)"), re.compile(r"\W ?-")
_NAMES = {"yy": "%y", "yyyy": "%Y", "mmm": "%b", "mmmm": "%B", "ddd": "%a", "dddd": "%A", "am/pm": "%p"}


class FormatSection(NamedTuple):
    """One section of a number format.

    Args:
        pattern: its placeholders and literal texts.
        condition: an operator and a number.
    """

    pattern: str
    condition: tuple[str, float] | None = None


@lru_cache(maxsize=1 << 14)
def format_number(value: float, code: str = GENERAL) -> str:
    """Write a finite number in a number format."""
    number = Decimal(repr(value)) if isinstance(value, float) and not value.is_integer() else Decimal(int(value))
    pattern, signed = _choose_pattern(_sections(code), number)
    text = " ".join(_write_number(pattern, abs(number)).translate(_SHOWN).split())
    if _NOTHING.fullmatch(text):
        return "-"
    if signed:
        text, count = _ACCOUNTING.subn(r"-\1\2", text)
        signed = count > 0 or not {"-", "(", "▼"}.isdisjoint(text)  # a colour is no sign
    return f"-{text}" if number < 0 and not signed and text else text


def is_percent(code: str) -> bool:
    """Tell whether numbers are shown in percent."""
    return code != GENERAL and any("%" in section.pattern for section in _sections(code))


@lru_cache(maxsize=1024)
def _sections(code: str) -> list[FormatSection]:
    sections, pattern, condition = list[FormatSection](), "", None
    for token in _TOKEN.finditer(code if len(code) <= MAX_LENGTH else GENERAL):
        symbol = token["symbol"] or token["elapsed"] or token[3] or ""
        if symbol == ";":
            sections.append(FormatSection(pattern, condition))
            pattern, condition = "", None
        elif token["sign"]:
            condition = token["sign"], float(token["than"])
        else:
            pattern += symbol.lower() or "".join(filter(None, token.group(1, 2, 4, 9))).translate(_LITERAL)
    return [*sections, FormatSection(pattern, condition)]


def _choose_pattern(sections: list[FormatSection], number: Decimal) -> tuple[str, bool]:
    """Return the pattern for a number, and whether it may say itself that a number is negative."""
    numeric = sections[:3]
    if not any(section.condition for section in numeric):
        place = 1 if number < 0 and len(numeric) > 1 else 2 if number == 0 and len(numeric) > 2 else 0
        return numeric[place].pattern, place == 1
    for place, section in enumerate(numeric):
        sign, than = section.condition or (">=", -math.inf)
        if sign in _HOLDS and _HOLDS[sign](number, than):
            return section.pattern, number < 0 and place > 0
    return "general", False


def _write_number(pattern: str, number: Decimal) -> str:
    if "general" in pattern or "@" in pattern or not {*"ymdhs"}.isdisjoint(pattern):
        return re.sub("general|@|.*[ymdhs].*", _write_general(number), pattern, count=1)
    number *= 100 ** pattern.count("%")
    if "e" in pattern:
        power = _POWER.search(pattern)
        return pattern.replace(power[0], _write_power(power, number)) if power else _write_general(number)
    if "/" in pattern:
        fraction = _FRACTION.search(pattern)
        return _write_fraction(number, len(fraction[2])) if fraction else _write_general(number)
    if group := _GROUPED.search(pattern):
        return _write_fixed(pattern.replace(group[1], ""), number, group[1])
    return _write_fixed(pattern, number, "," if "," in _SCALE.sub("", pattern) else "")


def _write_general(number: Decimal) -> str:
    """Write a number in 11 characters; larger whole ones keep their digits, as identifiers must."""
    digits = (_CUT if number == number.to_integral_value() else _ROUNDED).create_decimal(number)
    plain = format(digits.normalize(), "f")
    if len(plain) <= GENERAL_WIDTH or 10**GENERAL_WIDTH <= number < 2**63:
        return plain
    if Decimal("0.0001") <= number < 10**GENERAL_WIDTH:
        return format(_round(number, max(GENERAL_WIDTH - 1 - len(plain.partition(".")[0]), 0)).normalize(_EXACT), "f")
    mantissa, exponent = f"{number:.5E}".split("E")
    return f"{mantissa.rstrip('0').rstrip('.')}E{int(exponent):+03d}"


def _round(number: Decimal, places: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-places), context=_EXACT)


def _write_fixed(pattern: str, number: Decimal, group: str) -> str:
    """Put the digits of a number into the placeholders 0, # and ? of a pattern; the first one takes the rest."""
    if plain := _PLAIN.fullmatch(pattern):
        return format(_round(_CUT.create_decimal(number), len(plain[1] or "")), ",f" if group else "f")
    number = number.scaleb(-3 * sum(map(len, _SCALE.findall(pattern))), _EXACT)
    before, point, after = _SCALE.sub("", pattern).replace(",", "").partition(".")
    left, right = ("".join(_PLACE.findall(part)) for part in (before, after))
    whole, _, decimals = format(_round(number, len(right)), "f").partition(".")
    decimals = decimals.rstrip("0").ljust(len(right.rstrip("#?")), "0")
    whole = whole.lstrip("0").zfill(len(left.lstrip("#?")))
    rest = max(len(whole) - len(left), 0) + 1
    padded = whole.rjust(len(left), "\0")
    digits = iter([_THOUSAND.sub(group, whole)] if group else [padded[:rest], *padded[rest:]])
    text = _PLACE.sub(lambda _: next(digits, ""), before) + (point if decimals else "")
    digits = iter(decimals)
    return text.replace("\0", "") + _PLACE.sub(lambda _: next(digits, ""), after)


def _write_power(form: re.Match[str], number: Decimal) -> str:
    places = len(form[1] or "")
    rounded = Context(places + 1, ROUND_HALF_UP).create_decimal(number)
    mantissa, power = f"{float(rounded):.{places}E}".split("E")
    signed = f"{int(power):+0{len(form[3]) + 1}d}"
    return f"{mantissa}E{signed if form[2] == '+' else signed.removeprefix('+')}"


def _write_fraction(number: Decimal, digits: int) -> str:
    whole, part = divmod(Fraction(number).limit_denominator(10**digits - 1), 1)
    return f"{whole} {part}" if whole and part else f"{part or whole}"


@lru_cache(maxsize=1 << 14)
def format_date(value: datetime.date | datetime.time | datetime.timedelta, code: str = GENERAL) -> str:
    """Write a date or a time in a number format; one with day, month and year is written as 2024-03-01."""
    pattern = _MINUTES.sub(lambda part: (part[1] or "") + "n" * part[0].count("m"), _sections(code)[0].pattern)
    kinds = {part[1] for part in _DATE_PART.finditer(pattern)} - {None}
    if isinstance(value, datetime.timedelta) and code != GENERAL and "s" not in pattern:
        return spreadsheet_date(value).rpartition(":")[0]
    if isinstance(value, datetime.datetime) and kinds >= {*"ymd"} and "s" not in kinds:
        value = value.replace(second=0, microsecond=0) if "h" in kinds else value.date()
    if isinstance(value, datetime.timedelta) or code == GENERAL or not kinds or kinds >= {*"ymd"}:
        return spreadsheet_date(value)
    day = value if isinstance(value, datetime.date) else datetime.date.min
    time = value if isinstance(value, datetime.time) else getattr(value, "time", datetime.time)()
    hour = (time.hour - 1) % 12 + 1 if "am/pm" in pattern else time.hour
    seconds = time.second + time.microsecond / 1e6
    numbers = {"y": day.year, "m": day.month, "d": day.day, "h": hour, "n": time.minute, "s": seconds}

    def write(part: re.Match[str]) -> str:
        if name := _NAMES.get(part[0]):
            return datetime.datetime.combine(day, time).strftime(name)
        width, places = len(part[0].strip("[]")), len(part[0].partition(".")[2])
        return f"{numbers[part[1]] if places else int(numbers[part[1]]):0{width}.{places}f}"

    return _DATE_PART.sub(write, pattern).translate(_SHOWN).strip()
