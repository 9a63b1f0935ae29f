"""Formatting of stored numbers and dates as a spreadsheet cell shows them, in English.

The supported formats are integers, decimals, thousands, percent, currencies, units, leading zeros, codes and dates.
Other formats are shown as General. The text is for reading: sums use the stored number.

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
"""Placeholders and literal texts of a section of a format, and the condition on its numbers."""
_CODES = """0|0.00|#,##0|#,##0.00|"$"#,##0|"$"#,##0|"$"#,##0.00|"$"#,##0.00|0%|0.00%|0.00E+00|# ?/?|# ??/??
yyyy-m-d|yyyy-m-d|d-mmm|mmm-yy|h:mm AM/PM|h:mm:ss AM/PM|h:mm|h:mm:ss|yyyy-m-d h:mm
#,##0|#,##0|#,##0.00|#,##0.00|#,##0;-#,##0;"-"|"$"#,##0;-"$"#,##0;"-"|#,##0.00;-#,##0.00;"-"
"$"#,##0.00;-"$"#,##0.00;"-"|mm:ss|[h]:mm:ss|mm:ss.0|##0.0E+0"""
BUILTIN = dict(zip(map(str, (*range(1, 23), *range(37, 49))), re.split(r"[|\n]", _CODES), strict=True))
"""Built-in number formats by id, which workbooks do not define."""
_INTEGER, _DECIMAL = (Context(15, mode) for mode in (ROUND_DOWN, ROUND_HALF_UP))
_EXACT = Context(1000, ROUND_HALF_UP)

_TOKEN = re.compile(
    r'(?is)"([^"]*)"?|\\(.)|(_).?|\*.?|\[\$([^\]-]*)[^\]]*\]|\[(?P<sign><>|[<>]=?|=)(?P<than>-?\d{1,20}(?:\.\d{1,20})?)\]'
    r"|\[(?P<elapsed>h+|m+|s+)\]|\[[^\]]*\]|(?P<symbol>General|AM/PM|E[+-]|[0#?.,%/@ymdhs;])|(.)"
)
_HOLDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne}
_ANY = (">=", -math.inf)
_BY_SIGN = {2: [(">=", 0.0), _ANY], 3: [(">", 0.0), ("<", 0.0), _ANY]}
"""Default conditions of formats with two and three sections."""
_LITERAL = {code: 0xF000 + code for code in range(128)}
_OUTPUT = {literal: code for code, literal in _LITERAL.items()} | {ord("_"): " "}
"""Characters that represent literal texts while placeholders are filled, and their output. _ becomes a space."""
_SIGNS = {*"-(▼".translate(_LITERAL)}
_GROUPED = re.compile("(?<=[0#?]),(?=[0#?])|(?<=#)[\uf020\uf027\uf02e\u00a0\u202f\u2019](?=##[0#])")
_SCALE = re.compile(r"(?<=[0#?.]),+(?=\.|[^0#?]*$)")
_POWER = re.compile(r"[0#?]+(?:\.([0#?]+))?e[+-][0#?]+")
_FRACTION = re.compile(r"#[^0#?/]+(\?+)/\?+")
_MINUTES = re.compile(r"(?<=h)([^a-z]*)m{1,2}(?!m)|(?<!m)m{1,2}(?=[^a-z]*s)")
_DATE_PART = re.compile(r"([ymdhis])\1*(?:\.0+)?|am/pm")
_PLACEHOLDER, _THOUSAND = re.compile("[0#?]"), re.compile(r"(?<=\d)(?=(?:\d{3})+$)")
_ACCOUNTING, _LONE_DASH = re.compile(r"(\W?)\(([\d.,]+)\)"), re.compile(r"^\W ?-$")
_PARTS = {"yy": "y", "y": "Y", "mmmm": "B", "mmm": "b", "m": "m", "dddd": "A", "ddd": "a", "d": "d", "i": "M", "s": "S"}
"""`strftime` directives by part of a date or by its first letter. `format_date` adds the directives of hours."""


@lru_cache(maxsize=1 << 14)
def format_number(value: float, code: str = GENERAL) -> NumberText:
    """Format a finite number as a spreadsheet cell with this number format shows it: 0.125 as 12.5% by `0.0%`.

    Args:
        value: stored number.
        code: number format, such as `#,##0.00`.

    Returns:
        The text with its number, which is 100 times `value` for a percent format.
    """
    exact, sections = Decimal(repr(value)), _sections(code)
    number = (_INTEGER if value == round(value) else _DECIMAL).create_decimal(exact).normalize()
    index, pattern = next((n, text) for n, (text, (sign, than)) in enumerate(sections) if _HOLDS[sign](number, than))
    symbols = _write_number(pattern, abs(number))
    text = _LONE_DASH.sub("-", " ".join(symbols.translate(_OUTPUT).split()))
    # A section for negative numbers may contain the sign as literal text. A color is not a sign.
    if number < 0 and index:
        text = _ACCOUNTING.sub(r"-\1\2", text)
    if number < 0 and text and (not index or _SIGNS.isdisjoint(symbols)):
        text = f"-{text}"
    return NumberText(text, float(exact.scaleb(2)) if "%" in sections[0][0] else value)


@lru_cache(maxsize=1024)
def _sections(code: str) -> list[Section]:
    """Split a number format such as `0.0;-0.0` into sections, each with the condition of its use.

    Sections for texts are omitted. The format General is the last section.
    """
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
    # The fourth section is for texts.
    return [*zip(patterns[:3], conditions, strict=False), ("general", _ANY)]


def _write_number(pattern: str, number: Decimal) -> str:
    number *= 100 ** pattern.count("%")
    if power := _POWER.search(pattern):
        return pattern.replace(power[0], f"{float(number):.{len(power[1] or '')}E}")
    if fraction := _FRACTION.search(pattern):
        integer, part = divmod(Fraction(number).limit_denominator(10 ** len(fraction[1]) - 1), 1)
        return f"{integer} {part}" if integer and part else f"{part or integer}"
    # True for "general" too, which contains an "e".
    if not {*"@/ymdhse"}.isdisjoint(pattern):
        return re.sub(r"general|@|.*(?:[/ymdhs]|e[+-]).*", _write_general(number), pattern, count=1)
    return _write_fixed(pattern, number)


def _write_general(number: Decimal) -> str:
    """Format a number in about 11 characters, as a spreadsheet does by its format General.

    Integers, such as identifiers, stay exact.
    """
    if number == round(number) < 2**63:
        return f"{number:.0f}"
    return f"{round(float(number), 9):.10G}" if 0.0001 <= number < 10**11 else f"{float(number):.6G}"


def _write_fixed(pattern: str, number: Decimal) -> str:
    """Fill the digits of a number into the placeholders 0, # and ? of a pattern such as `#,##0.00`.

    The first placeholder takes all leading digits.
    """
    number = number.scaleb(-3 * sum(map(len, _SCALE.findall(pattern))))
    pattern = re.sub(r"(?<![0#?.])\.(?=[0#?])", "#.", _SCALE.sub("", pattern))
    group = mark[0] if (mark := _GROUPED.search(pattern)) else ""
    prefix, point, suffix = pattern.replace(group, "").replace(",", "").partition(".")
    int_form, dec_form = ("".join(_PLACEHOLDER.findall(part)) for part in (prefix, suffix))
    integer, _, decimals = f"{number.quantize(Decimal(1).scaleb(-len(dec_form)), context=_EXACT):f}".partition(".")
    decimals = decimals.rstrip("0").ljust(len(dec_form.rstrip("#?")), "0")
    integer = integer.lstrip("0").zfill(len(int_form.lstrip("#?")))
    padded = _THOUSAND.sub(group, integer) + "\0" * (len(int_form) - 1) if group else integer.rjust(len(int_form), "\0")
    head = len(padded) - len(int_form) + 1
    digits = iter((padded[:head], *padded[head:], *decimals))
    return _PLACEHOLDER.sub(lambda _: next(digits, ""), prefix + (point if decimals else "") + suffix).replace("\0", "")


@lru_cache(maxsize=1 << 14)
def format_date(value: datetime.date | datetime.time | datetime.timedelta, code: str = GENERAL) -> str:
    """Format a date, time or duration as a spreadsheet cell with a number format shows it.

    A format with day, month and year gives 2024-03-01. `General` and Japanese eras give the full date and time.
    """
    pattern = _MINUTES.sub(lambda part: (part[1] or "") + "i" * part[0].count("m"), _sections(code)[0][0])
    kinds = {part[1] for part in _DATE_PART.finditer(pattern)} - {None}
    if isinstance(value, datetime.timedelta):
        text = spreadsheet_date(value)
        return text.rpartition(":")[0] if kinds and "s" not in kinds else text
    if isinstance(value, datetime.datetime) and kinds >= {*"ymd"} and "s" not in kinds:
        value = value.replace(second=0, microsecond=0) if "h" in kinds else value.date()
    # "ge" is the year of a Japanese era.
    if not kinds or kinds >= {*"ymd"} or "ge" in code:
        return spreadsheet_date(value)
    parts = _PARTS | {"a": "p", "h": "I" if "am/pm" in pattern else "H"}

    def write(part: re.Match[str]) -> str:
        name, _, zeros = part[0].partition(".")
        text = value.strftime("%" + (parts.get(name) or parts[name[0]]))
        fraction = f".{getattr(value, 'microsecond', 0):06}"[: len(zeros) + 1] if zeros else ""
        return (text if len(name) > 1 else text.lstrip("0") or "0") + fraction

    return _DATE_PART.sub(write, pattern).translate(_OUTPUT).strip()
