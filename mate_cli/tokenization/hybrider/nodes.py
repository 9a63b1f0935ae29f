"""The nodes that a question is linked to: cells, and pages that cells link to; what is read of a page.

Source: Chen et al. 2020, "HybridQA", section 4; wenhuchen/HybridQA, `preprocessing.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Literal

from mate_cli.tables.example import TableExample
from mate_cli.tokenization.expansion import split_sentences

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


def linked(example: TableExample, nodes: tuple[Node, ...]) -> LinkedExample:
    """The question with its nodes."""
    known = {field.name: getattr(example, field.name) for field in fields(TableExample)}
    return LinkedExample(**known, nodes=nodes)


_TOKENISED_END = re.compile(r"(?<=\s[.!?])\s+")


def page_title(link: str) -> str:
    """What a link names: "/wiki/Anna_Berg" is "Anna Berg"."""
    return link.replace("/wiki/", "").replace("_", " ")


def page_sentences(text: str) -> list[str]:
    """Split a page into sentences.

    In a tokenised text a full stop that ends a sentence stands alone, so that "U.S. Navy ." is cut at its end
    only; a text without such a full stop is split at every one.
    """
    parts = _TOKENISED_END.split(text)
    return [part.strip() for part in parts if part.strip()] if len(parts) > 1 else split_sentences(text)


def first_sentence(text: str) -> str:
    """The first sentence of a page, empty without any."""
    return next(iter(page_sentences(text)), "")
