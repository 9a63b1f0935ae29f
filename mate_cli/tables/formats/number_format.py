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
from typing import TypeAlias

from mate_cli.tables.formats.cell_text import NumberText, spreadsheet_date

GENERAL = "General"
Section: TypeAlias = tuple[str, tuple[str, float]]
"""Placeholders and literal texts of a section of a format, and the condition of its numbers."""
_CODES = """0|0.00|#,##0|#,##0.00|"$"#,##0|"$"#,##0|"$"#,##0.00|"$"#,##0.00|0%|0.00%|0.00E+00|# ?/?|# ??/??
yyyy-m-d|yyyy-m-d|d-mmm|mmm-yy|h:mm AM/PM|h:mm:ss AM/PM|h:mm|h:mm:ss|yyyy-m-d h:mm
#,##0|#,##0|#,##0.00|#,##0.00|#,##0;-#,##0;"-"|"$"#,##0;-"$"#,##0;"-"|#,##0.00;-#,##0.00;"-"
"$"#,##0.00;-"$"#,##0.00;"-"|mm:ss|[h]:mm:ss|mm:ss.0|##0.0E+0"""
BUILTIN = dict(zip(map(str, (*range(1, 23), *range(37, 49))), re.split(r"[|\n]", _CODES), strict=True))
"""The number formats that workbooks need not define, by their ids."""
_WHOLE, _DECIMAL = (Context(15, way) for way in (ROUND_DOWN, ROUND_HALF_UP))
_EXACT = Context(1000, ROUND_HALF_UP)

_TOKEN = re.compile(
    r'(?is)"([^"]*)"?|\\(.)|(_).?|\*.?|\[\$([^\]-]*)[^\]]*\]|\[(?P<sign><>|[<>]=?|=)(?P<than>-?\d{1,20}(?:\.\d{1,20})?)\]'
    r"|\[(?P<elapsed>h+|m+|s+)\]|\[[^\]]*\]|(?P<symbol>General|AM/PM|E[+-]|[0#?.,%/@ymdhs;])|(.)"
)
_HOLDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne}
_ANY = (">=", -math.inf)
_BY_SIGN = {2: [(">=", 0.0), _ANY], 3: [(">", 0.0), ("<", 0.0), _ANY]}
"""Conditions of two and three sections that have none of their own."""
_LITERAL = {code: 0xF000 + code for code in range(128)}
_SHOWN = {literal: code for code, literal in _LITERAL.items()} | {ord("_"): " "}
"""Signs of literal texts while placeholders are filled in, and what they are shown as; _ is the width of a sign."""
_SIGNS = {*"-(▼".translate(_LITERAL)}
_GROUPED = re.compile("(?<=[0#?]),(?=[0#?])|(?<=#)[\uf020\uf027\uf02e\u00a0\u202f\u2019](?=##[0#])")
_SCALE = re.compile(r"(?<=[0#?.]),+(?=\.|[^0#?]*$)")
_POWER = re.compile(r"[0#?]+(?:\.([0#?]+))?e[+-][0#?]+")
_FRACTION = re.compile(r"#[^0#?/]+(\?+)/\?+")
_MINUTES = re.compile(r"(?<=h)([^a-z]*)m{1,2}(?!m)|(?<!m)m{1,2}(?=[^a-z]*s)")
_DATE_PART = re.compile(r"([ymdhis])\1*(?:\.0+)?|am/pm")
_PLACE, _THOUSAND = re.compile("[0#?]"), re.compile(r"(?<=\d)(?=(?:\d{3})+$)")
_ACCOUNTING, _NOTHING = re.compile(r"(\W?)\(([\d.,]+)\)"), re.compile(r"^\W ?-$")
_PARTS = {"yy": "y", "y": "Y", "mmmm": "B", "mmm": "b", "m": "m", "dddd": "A", "ddd": "a", "d": "d", "i": "M", "s": "S"}
"""Directives of `strftime` for parts of a date, or for all parts of that first letter; those of hours follow."""


@lru_cache(maxsize=1 << 14)
def format_number(value: float, code: str = GENERAL) -> NumberText:
    """Write a finite number in a number format; in percent it counts a hundredfold."""
    exact, sections = Decimal(repr(value)), _sections(code)
    number = (_WHOLE if value == round(value) else _DECIMAL).create_decimal(exact).normalize()
    place, pattern = next((n, text) for n, (text, (sign, than)) in enumerate(sections) if _HOLDS[sign](number, than))
    symbols = _write_number(pattern, abs(number))
    text = _NOTHING.sub("-", " ".join(symbols.translate(_SHOWN).split()))
    if number < 0 and place:  # such a section may say itself that the number is negative; a colour is no sign
        text = _ACCOUNTING.sub(r"-\1\2", text)
    if number < 0 and text and (not place or _SIGNS.isdisjoint(symbols)):
        text = f"-{text}"
    return NumberText(text, float(exact.scaleb(2)) if "%" in sections[0][0] else value)


@lru_cache(maxsize=1024)
def _sections(code: str) -> list[Section]:
    """Return the sections of a format for numbers, and General behind them."""
    patterns, conditions = [""], [_ANY]
    for token in _TOKEN.finditer(code):
        symbol = token["symbol"] or token["elapsed"] or token[3] or ""
        if symbol == ";":
            patterns.append("")
            conditions.append(_ANY)
        elif token["sign"]:
            conditions[-1] = token["sign"], float(token["than"])
        else:
            patterns[-1] += symbol.lower() or "".join(filter(None, token.group(1, 2, 4, 9))).translate(_LITERAL)
    if set(conditions[:3]) == {_ANY}:
        conditions = _BY_SIGN.get(len(patterns[:3]), conditions)
    return [*zip(patterns[:3], conditions, strict=False), ("general", _ANY)]  # the fourth would be for texts


def _write_number(pattern: str, number: Decimal) -> str:
    number *= 100 ** pattern.count("%")
    if power := _POWER.search(pattern):
        return pattern.replace(power[0], f"{float(number):.{len(power[1] or '')}E}")
    if fraction := _FRACTION.search(pattern):
        whole, part = divmod(Fraction(number).limit_denominator(10 ** len(fraction[1]) - 1), 1)
        return f"{whole} {part}" if whole and part else f"{part or whole}"
    if not {*"@/ymdhse"}.isdisjoint(pattern):  # also of "general"
        return re.sub(r"general|@|.*(?:[/ymdhs]|e[+-]).*", _write_general(number), pattern, count=1)
    return _write_fixed(pattern, number)


def _write_general(number: Decimal) -> str:
    """Write a number in about 11 characters; whole ones keep their digits, as identifiers must."""
    if number == round(number) < 2**63:
        return f"{number:.0f}"
    return f"{round(float(number), 9):.10G}" if 0.0001 <= number < 10**11 else f"{float(number):.6G}"


def _write_fixed(pattern: str, number: Decimal) -> str:
    """Put the digits of a number into the placeholders 0, # and ? of a pattern; the first one takes the rest."""
    number = number.scaleb(-3 * sum(map(len, _SCALE.findall(pattern))))
    pattern = re.sub(r"(?<![0#?.])\.(?=[0#?])", "#.", _SCALE.sub("", pattern))
    group = mark[0] if (mark := _GROUPED.search(pattern)) else ""
    before, point, after = pattern.replace(group, "").replace(",", "").partition(".")
    left, right = ("".join(_PLACE.findall(part)) for part in (before, after))
    whole, _, decimals = f"{number.quantize(Decimal(1).scaleb(-len(right)), context=_EXACT):f}".partition(".")
    decimals = decimals.rstrip("0").ljust(len(right.rstrip("#?")), "0")
    whole = whole.lstrip("0").zfill(len(left.lstrip("#?")))
    padded = _THOUSAND.sub(group, whole) + "\0" * (len(left) - 1) if group else whole.rjust(len(left), "\0")
    rest = len(padded) - len(left) + 1
    digits = iter((padded[:rest], *padded[rest:], *decimals))
    return _PLACE.sub(lambda _: next(digits, ""), before + (point if decimals else "") + after).replace("\0", "")


@lru_cache(maxsize=1 << 14)
def format_date(value: datetime.date | datetime.time | datetime.timedelta, code: str = GENERAL) -> str:
    """Write a date or a time in a number format; one with day, month and year is written as 2024-03-01."""
    pattern = _MINUTES.sub(lambda part: (part[1] or "") + "i" * part[0].count("m"), _sections(code)[0][0])
    kinds = {part[1] for part in _DATE_PART.finditer(pattern)} - {None}
    if isinstance(value, datetime.timedelta):
        text = spreadsheet_date(value)
        return text.rpartition(":")[0] if kinds and "s" not in kinds else text
    if isinstance(value, datetime.datetime) and kinds >= {*"ymd"} and "s" not in kinds:
        value = value.replace(second=0, microsecond=0) if "h" in kinds else value.date()
    if not kinds or kinds >= {*"ymd"} or "ge" in code:  # with a Japanese era
        return spreadsheet_date(value)
    parts = _PARTS | {"a": "p", "h": "I" if "am/pm" in pattern else "H"}

    def write(part: re.Match[str]) -> str:
        name, _, places = part[0].partition(".")
        text = value.strftime("%" + (parts.get(name) or parts[name[0]]))
        fraction = f".{getattr(value, 'microsecond', 0):06}"[: len(places) + 1] if places else ""
        return (text if len(name) > 1 else text.lstrip("0") or "0") + fraction

    return _DATE_PART.sub(write, pattern).translate(_SHOWN).strip()
