"""Nodes that a question is linked to: table cells, and pages that cells link to.

Also parses page sentences. Source: Chen et al. 2020, "HybridQA", section 4; wenhuchen/HybridQA, `preprocessing.py`.
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
"""Sources in the order of a question's nodes. "links" are cell matches and superlatives."""
MAX_NODES = 16
"""Maximum number of nodes ranked per question.

Excess nodes are dropped from the end, hence "links" first.
"""
MAX_CANDIDATES = 16
"""Maximum number of cells and pages of a row to hop to.

Excess candidates are dropped from the end.
"""


@dataclass(frozen=True, slots=True)
class LinkedItem:
    """A cell of a table, or a Wikipedia page that a cell links to.

    Args:
        content: the cell's text, or the page's title.
        coordinate: (row, column) of the cell, both from 0.
        link: the page's key in `Table.passages`; None for a cell.
    """

    content: str
    coordinate: tuple[int, int]
    link: str | None


@dataclass(frozen=True, slots=True)
class Node(LinkedItem):
    """A table cell or linked page that the question may refer to.

    Args:
        fact: the sentence of the page that matches the question. For a cell the reason of the link: "string match",
            "minimum", "maximum", "earliest" or "latest".
        confidence: a distance for pages (small is good), a share of matching characters for cells (large is good).
        header: text of the column's header.
        source: method that found the node.
    """

    fact: str
    confidence: float
    header: str
    source: Source


@dataclass(frozen=True, slots=True)
class Candidate(LinkedItem):
    """A possible location of the answer: a cell of a table row, or a page that the cell links to.

    Args:
        header: text of the column's header.
        sentence: first sentence of a page; empty for a cell.
    """

    header: str
    sentence: str


@dataclass(frozen=True, slots=True)
class LinkedExample(TableExample):
    """A question with the cells and pages (nodes) that it is linked to.

    Args:
        nodes: all nodes, in the order of `link_question`.
        current: the node to hop from. None: no node is selected yet.
    """

    nodes: tuple[Node, ...] = ()
    current: Node | None = None


def attach_nodes(example: TableExample, nodes: tuple[Node, ...]) -> LinkedExample:
    """Return a copy of a question that contains the cells and pages (nodes) linked to the question."""
    values = {field.name: getattr(example, field.name) for field in fields(TableExample)}
    return LinkedExample(**values, nodes=nodes)


_TOKENISED_END = re.compile(r"(?<=\s[.!?])\s+")


def page_title(link: str) -> str:
    """Return the title of the page that a link refers to: "Anna Berg" for "/wiki/Anna_Berg"."""
    return link.replace("/wiki/", "").replace("_", " ")


def page_sentences(text: str) -> list[str]:
    """Split the text of a linked Wikipedia page into sentences.

    In a tokenized text a sentence ends with a separate full stop, so "U.S. Navy ." is split only at its end. A text
    without a separate full stop is split at every full stop.
    """
    parts = _TOKENISED_END.split(text)
    return [part.strip() for part in parts if part.strip()] if len(parts) > 1 else split_sentences(text)


def first_sentence(text: str) -> str:
    """Return the first sentence of a page, or "" if the page has no sentence."""
    return next(iter(page_sentences(text)), "")


TRIGGERS = ("JJR", "JJS", "RBR", "RBS")
"""Part-of-speech tags of comparatives and superlatives."""
UNORDERED_HEADERS = frozenset(
    ("#", "Type", "Name", "Location", "Position", "Category", "Nationality", "School", "Notes", "Notability", "Country")
)
"""Headers of columns whose values have no order."""
MIN_SHARE = 0.3
"""Minimum share of numbers or dates among a column's cells to find extremes."""
_YEARS = range(1001, 2020)
_DEFAULT_DATE = datetime(2000, 1, 1)

Extreme = tuple[str, tuple[int, int]]
"""Name of an extreme and its cell as (row, column), both from 0.

The names are "minimum", "maximum", "earliest" and "latest".
"""


def extremes(table: Table) -> tuple[Extreme, ...]:
    """Find the cells that a superlative may mean: smallest and largest value per column.

    Columns have numbers or dates. Of equal values, the first smallest and the last largest cell are returned.

    If several columns have the same header, only the last of these columns is used, at the position of the first.
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
    """Parse the numbers or dates in a column, each with the (row, column) of its cell.

    All values have the type of the first value.
    """
    values: list[tuple[float | datetime, tuple[int, int]]] = []
    for row, cells in enumerate(table.rows):
        value = _value(cells[column].text, type(values[0][0]) if values else None)
        if value is not None:
            values.append((value, (row, column)))
    return values


def _value(text: str, kind: type | None) -> float | datetime | None:
    """Parse a cell as a number or a date. Return None for other texts and, as in wenhuchen/HybridQA, for zero.

    Args:
        text: text of the cell.
        kind: `float` or `datetime` to parse only that type. None for both.
    """
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
        return parse(text, default=_DEFAULT_DATE, ignoretz=True)
    except (ValueError, OverflowError):
        return None
