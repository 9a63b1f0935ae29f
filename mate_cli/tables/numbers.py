"""Numbers and dates in a text, read as the reference reads them, its slips included; columns of them, and their ranks.

Source: google-research/tapas, `utils/number_utils.py`; of columns and of how a question's numbers compare with them
`utils/number_annotation_utils.py` and `utils/tf_example_utils.py`. Known slips that are kept: the fifth ordinal word is
spelt "fith", a lower-case "sept" is no month, and only years from 1700 to 2016 are dates.
"""

from __future__ import annotations

import datetime
import math
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from mate_cli.tables.formats.cell_text import NumberText
from mate_cli.tables.text import normalize_for_match


class Date(NamedTuple):
    """The parts of a date that a text states."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


Value = float | Date


class NumericSpan(NamedTuple):
    """Characters [begin, end) of a text and what they may mean: "2012" is a number and a year."""

    begin: int
    end: int
    values: tuple[Value, ...]


_MONTHS = "january february march april may june july august september october november december"
_SHORT_MONTHS = {name[:3]: number for number, name in enumerate(_MONTHS.split(), 1)}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CARDINALS = "zero one two three four five six seven eight nine ten eleven twelve"
_ORDINALS = "zeroth first second third fourth fith sixth seventh eighth ninth tenth eleventh twelfth"
_WORDS = {word: float(number) for words in (_CARDINALS, _ORDINALS) for number, word in enumerate(words.split())}

_NUMBER = re.compile(r"((^|\s)[+-])?((\.\d+)|(\d+(,\d\d\d)*(\.\d*)?))")
_ONLY_NUMBER = re.compile(r"[+-]?(\.[0-9]+|[0-9]+(,[0-9]{3})*(\.[0-9]*)?)")
_RUN = re.compile(r"[^\W_]+")
_SUFFIXES = ("st", "nd", "rd", "th")
_DIGIT, _LETTERS = re.compile(r"\d"), re.compile(r"[^\W\d_]+")
_DATE_WORDS = frozenset([*_MONTHS.split(), *_SHORT_MONTHS, *_WEEKDAYS, "sept"])
_NAMES = frozenset([*_WORDS, *_MONTHS.split()])

_FIELDS = {
    "Y": r"(?P<year>\d{4})",
    "m": "(?P<month>1[0-2]|0[1-9]|[1-9])",
    "d": r"(?P<day>3[01]|[12]\d|0[1-9]|[1-9])",
    "F": f"(?P<month>{_MONTHS.replace(' ', '|')})",
    "B": f"(?P<month>{'|'.join([*_MONTHS.split(), *_SHORT_MONTHS])}|(?-i:Sept))",
    "A": f"(?:{'|'.join(_WEEKDAYS)})",
    " ": r"\s+",
    ".": r"\.",
}
_DATE_FORMS = {
    False: ["F", "B Y", "(?:A, )?B d(?:, Y)?"],
    True: ["Ys?", "d B(?: Y)?", "Y-m(?:-d)?", "m-d-Y", "d.m.Y"],
}
"""Written dates that begin with a digit, or do not. F is a full month name, B a full or short one, A a weekday."""
_DATE_PATTERNS = {
    is_digit: [re.compile("".join(_FIELDS.get(sign, sign) for sign in form), re.IGNORECASE) for form in forms]
    for is_digit, forms in _DATE_FORMS.items()
}
_MOST_WORDS = 3
_PLAIN_DIGITS = 30
_YEARS = range(1700, 2017)
_YEAR_WHEN_UNSTATED = 1900


@lru_cache(maxsize=1 << 17)
def numeric_values(text: str) -> tuple[Value, ...]:
    """Return all numbers and dates of a text, from left to right, after `normalize_for_match`."""
    if len(text) < _PLAIN_DIGITS and _ONLY_NUMBER.fullmatch(text):  # whatever else is in there is a part of it
        number = as_float32(float(text.replace(",", "")))
        is_year = len(text) == 4 and text.isdecimal() and int(text) in _YEARS
        return (number, Date(int(text))) if is_year else (number,)
    return tuple(value for span in parse_text(normalize_for_match(text)) for value in span.values)


def parse_text(text: str) -> list[NumericSpan]:
    """Find the longest spans of a text that are numbers or dates, from left to right.

    A span inside a longer one is dropped; spans that only overlap are kept.
    """
    if not _DIGIT.search(text) and _NAMES.isdisjoint(_LETTERS.findall(text.lower())):
        return []
    values = defaultdict[tuple[int, int], list[Value]](list)
    runs = [match.span() for match in _RUN.finditer(text)]
    for span in [*(match.span() for match in _NUMBER.finditer(text)), *runs]:
        word = text[slice(*span)]
        number = _WORDS.get(word) if word[0].isalpha() else _parse_number(word)
        if number is not None and span not in values:
            values[span].append(number)
    for place, (begin, stop) in enumerate(runs):
        if not text[begin].isdecimal() and text[begin:stop].lower() not in _DATE_WORDS:
            continue
        for _, end in runs[place : place + _MOST_WORDS]:
            if (date := _parse_date(text[begin:end])) is not None:
                values[begin, end].append(date)
    return [NumericSpan(*span, tuple(values[span])) for span in _longest(values)]


def convert_to_float(text: str) -> float:
    """Read a whole text as one number, guessing what its commas and dots mean.

    Commas separate thousands when there is a dot too, or when a part between commas has three characters; a
    single other comma is the decimal point. Several dots separate thousands.

    Raises:
        ValueError: the text is no number.

    Source: google-research/tapas, `utils/text_utils.py`.
    """
    thousands = "." in text or any(len(part) == 3 for part in text.split(","))
    if "," in text:
        return float(text.replace(",", "." if text.count(",") == 1 and not thousands else ""))
    return float(text.replace(".", "") if text.count(".") > 1 else text)


def _parse_number(text: str) -> float | None:
    try:
        value = float((text[:-2] if text.endswith(_SUFFIXES) else text).replace(",", ""))
    except ValueError:
        return None
    return None if math.isnan(value) or value == math.inf else as_float32(value)


def as_float32(value: float) -> float:
    """Return a number as the reference stores it, in 32 bits: this decides which numbers are equal."""
    return array("f", [value])[0]


def _parse_date(text: str) -> Date | None:
    """Read a date as `datetime.strptime` would; None where the text is none."""
    for pattern in _DATE_PATTERNS[text[0].isdecimal()]:
        if match := pattern.fullmatch(text):
            parts = match.groupdict().items()
            date = Date(**{key: _SHORT_MONTHS.get(part[:3].lower()) or int(part) for key, part in parts if part})
            with suppress(ValueError):
                year = _YEAR_WHEN_UNSTATED if date.year is None else date.year
                if datetime.date(year, date.month or 1, date.day or 1).year in _YEARS:
                    return date
    return None


def _longest(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans that are in no other, from left to right."""
    chosen: list[tuple[int, int]] = []
    for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not chosen or end > chosen[-1][1]:
            chosen.append((begin, end))
    return chosen


EQUAL, LESS, GREATER = 1, 2, 4
"""Bits of a numeric relation: the question's value is equal to, less than or greater than the cell's."""
CONSOLIDATION_FRACTION = 0.7


def consolidate(cells: Sequence[Sequence[Value]]) -> dict[int, Value]:
    """Give each cell of a column its first value of the column's commonest type.

    That type must occur in at least `CONSOLIDATION_FRACTION` of the cells.

    Returns:
        The value by row, without the rows that have none; empty when no type is common enough. Dates win a tie.
    """
    columns = (
        {row: value for row, values in enumerate(cells) for value in reversed(values) if type(value) is kind}
        for kind in (Date, float)
    )
    values = max(columns, key=len)
    return values if len(values) >= len(cells) * CONSOLIDATION_FRACTION else {}


def column_values(texts: Iterable[str]) -> dict[int, Value]:
    """Parse the body cells of one column and consolidate them; the value by row."""
    return consolidate(list(map(_cell_values, texts)))


def _cell_values(text: str) -> tuple[Value, ...]:
    values = numeric_values(text)
    if type(text) is NumberText:
        return (as_float32(text.number), *(value for value in values if type(value) is Date))
    return values


def sort_key(values: Iterable[Value]) -> Callable[[Value], float | tuple[int | None, ...]] | None:
    """Return a key that compares values of one type; None when they cannot be compared.

    Dates are compared by the parts that all of them state.
    """
    values = list(values)
    kinds = {type(value) for value in values}
    if len(kinds) != 1:
        return None
    if kinds == {float}:
        return lambda value: value
    parts = [part for part in range(3) if all(value[part] is not None for value in values)]  # type: ignore[index]
    return (lambda value: tuple(value[part] for part in parts)) if parts else None  # type: ignore[index]


def column_ranks(values: Mapping[int, Value]) -> dict[int, tuple[int, int]]:
    """Return (rank, inverse rank) by row; rank 1 is the smallest of the distinct values, inverse rank 1 the largest."""
    key = sort_key(values.values())
    if key is None:
        return {}
    keys = {row: key(value) for row, value in values.items()}
    ranks = {value: rank for rank, value in enumerate(sorted(set(keys.values())), 1)}
    return {row: (ranks[value], len(ranks) - ranks[value] + 1) for row, value in keys.items()}


def relations(question: Iterable[Value], values: Mapping[int, Value]) -> dict[int, int]:
    """Compare every number of the question with every cell of a column; the set of relations (bits) by row."""
    bits = dict.fromkeys(values, 0)
    for value in question:
        if key := sort_key([*values.values(), value]):
            asked: Any = key(value)
            for row, other in values.items():
                held: Any = key(other)
                bits[row] |= EQUAL if asked == held else LESS if asked < held else GREATER
    return {row: bit for row, bit in bits.items() if bit}
