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
    """A date whose parts are None if its text does not state them: "May 2012" has no day."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


Value = float | Date


class NumericSpan(NamedTuple):
    """Characters [start, end) of a text that are a number or date. "2012" has two values: a number and a year."""

    start: int
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
_DATE_FORMS = {False: ["F", "B Y", "(?:A, )?B d(?:, Y)?"], True: ["Ys?", "d B(?: Y)?", "Y-m(?:-d)?", "m-d-Y", "d.m.Y"]}
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
    """Find all numbers and dates in a text, in lower case and without duplicate spaces, from left to right."""
    # In a text that is one number, any other span would be inside the number and therefore dropped.
    if len(text) < _PLAIN_DIGITS and _ONLY_NUMBER.fullmatch(text):
        number = as_float32(float(text.replace(",", "")))
        is_year = len(text) == 4 and text.isdecimal() and int(text) in _YEARS
        return (number, Date(int(text))) if is_year else (number,)
    return tuple(value for span in parse_text(normalize_for_match(text)) for value in span.values)


def parse_text(text: str) -> list[NumericSpan]:
    """Find the spans of a text that are numbers or dates, from left to right.

    A span inside a longer span is omitted, so that "5 May 2012" is one date. Spans that only overlap are returned.
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
    for index, (start, stop) in enumerate(runs):
        if not text[start].isdecimal() and text[start:stop].lower() not in _DATE_WORDS:
            continue
        for _, end in runs[index : index + _MOST_WORDS]:
            if (date := _parse_date(text[start:end])) is not None:
                values[start, end].append(date)
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
    """Round a number to 32 bits, as TAPAS does before it compares two numbers."""
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
    """Select the (start, end) spans that are not inside another span, from left to right."""
    longest: list[tuple[int, int]] = []
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not longest or end > longest[-1][1]:
            longest.append((start, end))
    return longest


EQUAL, LESS, GREATER = 1, 2, 4
"""Bits of a numeric relation (TAPAS): a number in the question equals, is less than or is greater than the cell."""
CONSOLIDATION_FRACTION = 0.7


def consolidate(cells: Sequence[Sequence[Value]]) -> dict[int, Value]:
    """Select one value per cell of a column, so that the cells can be compared and ranked.

    All values have the type that most cells have, number or date. Dates win a tie. If a cell has several values of
    the type, its first value is selected.

    Args:
        cells: for each row, the numbers and dates in its cell.

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
    """Parse the body cells of a column to one comparable number or date per row. See `consolidate`.

    Args:
        texts: text of each body cell.

    Returns:
        The value by row index. Rows without a value are omitted.
    """
    return consolidate(list(map(_cell_values, texts)))


def _cell_values(text: str) -> tuple[Value, ...]:
    values = numeric_values(text)
    if type(text) is NumberText:
        return (as_float32(text.number), *(value for value in values if type(value) is Date))
    return values


def sort_key(values: Iterable[Value]) -> Callable[[Value], float | tuple[int | None, ...]] | None:
    """Return a key function that sorts numbers or dates, or None if the values are not comparable.

    Numbers and dates together are not comparable. Dates are compared by the parts (year, month, day) that all state.
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
    """Rank the rows of a column by value. Rows with equal values have the same rank.

    Args:
        values: number or date by row index.

    Returns:
        (rank, inverse rank) by row. Rank 1 is the smallest value, inverse rank 1 the largest. Empty if the values are
        not comparable.
    """
    key = sort_key(values.values())
    if key is None:
        return {}
    keys = {row: key(value) for row, value in values.items()}
    ranks = {value: rank for rank, value in enumerate(sorted(set(keys.values())), 1)}
    return {row: (ranks[value], len(ranks) - ranks[value] + 1) for row, value in keys.items()}


def relations(question: Iterable[Value], values: Mapping[int, Value]) -> dict[int, int]:
    """Return which cells of a column are equal, less or greater than values of a question.

    These are the numeric relations of TAPAS.

    Args:
        question: numbers and dates in the question.
        values: number or date of the cells by row index.

    Returns:
        The relations by row, as bits `EQUAL`, `LESS` and `GREATER`. Rows without a relation are omitted.
    """
    bits = dict.fromkeys(values, 0)
    for value in question:
        if key := sort_key([*values.values(), value]):
            query_key: Any = key(value)
            for row, cell in values.items():
                cell_key: Any = key(cell)
                bits[row] |= EQUAL if query_key == cell_key else LESS if query_key < cell_key else GREATER
    return {row: bit for row, bit in bits.items() if bit}
