"""The nodes that a question is linked to: cells, and pages that cells link to; what is read of a page.

Source: Chen et al. 2020, "HybridQA", section 4; wenhuchen/HybridQA, `preprocessing.py`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Literal

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tables.text import split_sentences

Source = Literal["tf-idf", "string-overlap", "links"]
SOURCES: tuple[Source, ...] = ("tf-idf", "string-overlap", "links")
"""In the order in which a question's nodes stand; "links" are cell matches and superlatives."""
MAX_NODES = 16
"""How many of a question's nodes are ranked, the first ones; "links" are lost first."""
MAX_CANDIDATES = 16
"""How many cells and pages of a row one can hop to, the first ones."""


@dataclass(frozen=True, slots=True)
class LinkedPlace:
    """A cell, or a page that a cell links to.

    Args:
        content: the cell's text, or the page's title.
        coordinate: (row, column) of the cell, both from 0.
        link: the page's key in `Table.passages`; None for a cell.
    """

    content: str
    coordinate: tuple[int, int]
    link: str | None


@dataclass(frozen=True, slots=True)
class Node(LinkedPlace):
    """One that a question seems to speak of.

    Args:
        fact: the sentence of the page that fits the question; for a cell what links it: "string match", "minimum",
            "maximum", "earliest" or "latest".
        confidence: a distance for pages (small is good), a share of matching characters for cells (large is good).
        header: text of the column's header.
        source: what found the node.
    """

    fact: str
    confidence: float
    header: str
    source: Source


@dataclass(frozen=True, slots=True)
class Candidate(LinkedPlace):
    """One of the row of a node, that may hold the answer: the column's header, and of a page its first sentence."""

    header: str
    sentence: str


@dataclass(frozen=True, slots=True)
class LinkedExample(TableExample):
    """A question with the nodes that it is linked to.

    Args:
        nodes: all of them, in the order of `link_question`.
        current: the node to hop from; None where none is chosen yet.
    """

    nodes: tuple[Node, ...] = ()
    current: Node | None = None


def attach_nodes(example: TableExample, nodes: tuple[Node, ...]) -> LinkedExample:
    """Return the question with its nodes."""
    known = {field.name: getattr(example, field.name) for field in fields(TableExample)}
    return LinkedExample(**known, nodes=nodes)


_TOKENISED_END = re.compile(r"(?<=\s[.!?])\s+")


def page_title(link: str) -> str:
    """Return the title in a link: "/wiki/Anna_Berg" is "Anna Berg"."""
    return link.replace("/wiki/", "").replace("_", " ")


def page_sentences(text: str) -> list[str]:
    """Split a page into sentences.

    In a tokenised text a full stop that ends a sentence stands alone, so that "U.S. Navy ." is cut at its end
    only; a text without such a full stop is split at every one.
    """
    parts = _TOKENISED_END.split(text)
    return [part.strip() for part in parts if part.strip()] if len(parts) > 1 else split_sentences(text)


def first_sentence(text: str) -> str:
    """Return the first sentence of a page, empty without any."""
    return next(iter(page_sentences(text)), "")


TRIGGERS = ("JJR", "JJS", "RBR", "RBS")
"""Tags of comparatives and superlatives."""
UNORDERED_HEADERS = frozenset(
    ("#", "Type", "Name", "Location", "Position", "Category", "Nationality", "School", "Notes", "Notability", "Country")
)
"""Columns that nobody compares."""
MIN_SHARE = 0.3
"""A column counts when at least this share of its cells are numbers or dates."""
_YEARS = range(1001, 2020)
_WHAT_DATES_LEAVE_OPEN = datetime(2000, 1, 1)

Extreme = tuple[str, tuple[int, int]]
"""The word for an extreme ("minimum", "maximum", "earliest", "latest") and its (row, column), both from 0."""


def asks_superlative(question_tags: str) -> bool:
    """Tell whether part-of-speech tags name a comparative or superlative."""
    return any(tag in question_tags for tag in TRIGGERS)


def extremes(table: Table) -> tuple[Extreme, ...]:
    """Return the first least and the last greatest cell of each column of numbers or dates.

    Of columns with the same header only the last counts, in the place of the first.
    """
    columns: dict[str, list[tuple[float | datetime, tuple[int, int]]]] = {}
    for column, header in enumerate(table.header):
        columns[header.text] = [] if header.text in UNORDERED_HEADERS else _values(table, column)
    cells: list[Extreme] = []
    for values in columns.values():
        if values and len(values) >= MIN_SHARE * len(table.rows):
            values.sort(key=lambda value: value[0])
            words = ("minimum", "maximum") if isinstance(values[0][0], float) else ("earliest", "latest")
            cells += [(words[0], values[0][1]), (words[1], values[-1][1])]
    return tuple(cells)


def _values(table: Table, column: int) -> list[tuple[float | datetime, tuple[int, int]]]:
    """Return the number or date of each cell that has one, all of the kind of the first."""
    values: list[tuple[float | datetime, tuple[int, int]]] = []
    for row, cells in enumerate(table.rows):
        value = _value(cells[column].text, type(values[0][0]) if values else None)
        if value is not None:
            values.append((value, (row, column)))
    return values


def _value(text: str, kind: type | None) -> float | datetime | None:
    """Return a number or date, of one kind where it is given; zero counts as neither, as in the reference."""
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
