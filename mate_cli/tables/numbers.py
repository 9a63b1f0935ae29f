"""Numbers and dates in texts, parsed as TAPAS does, and ranks of numeric columns.

Source: google-research/tapas, `utils/number_utils.py` for texts, `utils/number_annotation_utils.py` and
`utils/tf_example_utils.py` for columns and relations. Its known bugs are reproduced: the fifth ordinal is spelled
"fith", a lower-case "sept" is not a month, and only years from 1700 to 2016 are dates.
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
    """The parts of a date that a text states. Other parts are None."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


Value = float | Date


class NumericSpan(NamedTuple):
    """Characters [begin, end) of a text and their values: "2012" is a number and a year."""

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
"""Forms of dates by whether they start with a digit. F is a full month name, B a full or short month name, A a
weekday."""
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
    """Return all numbers and dates in a text, from left to right, after `normalize_for_match`."""
    # In a text that is one number, any other span would be inside the number and therefore dropped.
    if len(text) < _PLAIN_DIGITS and _ONLY_NUMBER.fullmatch(text):
        number = as_float32(float(text.replace(",", "")))
        is_year = len(text) == 4 and text.isdecimal() and int(text) in _YEARS
        return (number, Date(int(text))) if is_year else (number,)
    return tuple(value for span in parse_text(normalize_for_match(text)) for value in span.values)


def parse_text(text: str) -> list[NumericSpan]:
    """Find the longest spans of a text that are numbers or dates, from left to right.

    A span inside a longer span is dropped. Spans that only overlap are kept.
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
    """Parse a whole text as one number, and guess the meaning of its commas and dots.

    Commas separate thousands if the text has a dot or if a part between commas has three characters. Otherwise, a
    single comma is the decimal mark, and several commas are removed. Several dots separate thousands.

    Raises:
        ValueError: the text is not a number.

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
    """Round a number to 32 bits, as TAPAS stores it. This decides which numbers are equal."""
    return array("f", [value])[0]


def _parse_date(text: str) -> Date | None:
    """Parse a date as `datetime.strptime` would. Return None if the text is not a date."""
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
    """Return the spans that no other span contains, from left to right."""
    chosen: list[tuple[int, int]] = []
    for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not chosen or end > chosen[-1][1]:
            chosen.append((begin, end))
    return chosen


EQUAL, LESS, GREATER = 1, 2, 4
"""Bits of a numeric relation: the value in the question is equal to, less than or greater than the cell value."""
CONSOLIDATION_FRACTION = 0.7


def consolidate(cells: Sequence[Sequence[Value]]) -> dict[int, Value]:
    """Select one value per cell of a column, all of the most frequent type: dates or numbers.

    Each cell keeps its first value of that type. Dates win a tie.

    Returns:
        The value by row, without rows that have no value of the type. Empty if less than `CONSOLIDATION_FRACTION` of
        the cells have one.
    """
    columns = (
        {row: value for row, values in enumerate(cells) for value in reversed(values) if type(value) is kind}
        for kind in (Date, float)
    )
    values = max(columns, key=len)
    return values if len(values) >= len(cells) * CONSOLIDATION_FRACTION else {}


def column_values(texts: Iterable[str]) -> dict[int, Value]:
    """Parse the body cells of a column, and return their consolidated values by row."""
    return consolidate(list(map(_cell_values, texts)))


def _cell_values(text: str) -> tuple[Value, ...]:
    values = numeric_values(text)
    if type(text) is NumberText:
        return (as_float32(text.number), *(value for value in values if type(value) is Date))
    return values


def sort_key(values: Iterable[Value]) -> Callable[[Value], float | tuple[int | None, ...]] | None:
    """Return a sort key for values of one type, or None if the values are not comparable.

    Dates are compared by the parts (year, month, day) that all dates state.
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
    """Return (rank, inverse rank) among the distinct values of a column, by row.

    Rank 1 is the smallest value, inverse rank 1 the largest. Empty if the values are not comparable.
    """
    key = sort_key(values.values())
    if key is None:
        return {}
    keys = {row: key(value) for row, value in values.items()}
    ranks = {value: rank for rank, value in enumerate(sorted(set(keys.values())), 1)}
    return {row: (ranks[value], len(ranks) - ranks[value] + 1) for row, value in keys.items()}


def relations(question: Iterable[Value], values: Mapping[int, Value]) -> dict[int, int]:
    """Compare every value of the question with every cell of a column.

    Returns:
        The relations by row, as bits `EQUAL`, `LESS` and `GREATER`. Rows without a relation are omitted.
    """
    bits = dict.fromkeys(values, 0)
    for value in question:
        if key := sort_key([*values.values(), value]):
            asked: Any = key(value)
            for row, other in values.items():
                held: Any = key(other)
                bits[row] |= EQUAL if asked == held else LESS if asked < held else GREATER
    return {row: bit for row, bit in bits.items() if bit}
