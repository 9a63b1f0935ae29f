"""The cells with the least and the greatest number or date of a column, which a question with "most" may mean.

Source: wenhuchen/HybridQA, `preprocessing.py`; dateutil takes the place of dateparser, which reads more languages
and fills what a date leaves open from today's date.
"""

from __future__ import annotations

import math
from datetime import datetime

from mate_cli.tables.table import Table

TRIGGERS = ("JJR", "JJS", "RBR", "RBS")
"""Tags of comparatives and superlatives."""
UNORDERED_HEADERS = frozenset(
    ("#", "Type", "Name", "Location", "Position", "Category", "Nationality", "School", "Notes", "Notability", "Country")
)
"""Columns that nobody compares."""
LEAST_SHARE = 0.3
"""A column counts when at least this share of its cells are numbers or dates."""
_YEARS = range(1001, 2020)
_WHAT_DATES_LEAVE_OPEN = datetime(2000, 1, 1)

Extreme = tuple[str, tuple[int, int]]
"""The word for an extreme ("minimum", "maximum", "earliest", "latest") and its (row, column), both from 0."""


def asks_superlative(question_tags: str) -> bool:
    """Whether part-of-speech tags name a comparative or superlative."""
    return any(tag in question_tags for tag in TRIGGERS)


def extremes(table: Table) -> tuple[Extreme, ...]:
    """The first least and the last greatest cell of each column of numbers or dates.

    Of columns with the same header only the last counts, in the place of the first.
    """
    columns: dict[str, list[tuple[float | datetime, tuple[int, int]]]] = {}
    for column, header in enumerate(table.header):
        columns[header.text] = [] if header.text in UNORDERED_HEADERS else _values(table, column)
    found: list[Extreme] = []
    for values in columns.values():
        if values and len(values) >= LEAST_SHARE * len(table.rows):
            values.sort(key=lambda value: value[0])
            words = ("minimum", "maximum") if isinstance(values[0][0], float) else ("earliest", "latest")
            found += [(words[0], values[0][1]), (words[1], values[-1][1])]
    return tuple(found)


def _values(table: Table, column: int) -> list[tuple[float | datetime, tuple[int, int]]]:
    """Number or date of each cell that has one, all of the kind of the first."""
    found: list[tuple[float | datetime, tuple[int, int]]] = []
    for row, cells in enumerate(table.rows):
        value = _value(cells[column].text, type(found[0][0]) if found else None)
        if value is not None:
            found.append((value, (row, column)))
    return found


def _value(text: str, kind: type | None) -> float | datetime | None:
    """A number or date, of one kind where it is given; zero counts as neither, as in the reference."""
    if text in ("", "-"):
        return None
    number = _number(text)
    if number == 0:
        return None
    if number is not None and kind is not float and text.isdigit() and int(number) in _YEARS:
        return datetime(int(number), 1, 1)
    if number is not None and kind is not datetime:
        return number
    return None if kind is float else _date(text)


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", "").rstrip("%"))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _date(text: str) -> datetime | None:
    from dateutil.parser import parse

    try:
        return parse(text, default=_WHAT_DATES_LEAVE_OPEN, ignoretz=True)
    except (ValueError, OverflowError):
        return None
