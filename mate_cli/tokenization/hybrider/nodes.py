"""The nodes that a question is linked to: cells, and pages that cells link to.

Source: Chen et al. 2020, "HybridQA", section 4; wenhuchen/HybridQA, `preprocessing.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Source = Literal["tf-idf", "string-overlap", "links"]
SOURCES: tuple[Source, ...] = ("tf-idf", "string-overlap", "links")
"""In the order in which a question's nodes stand; "links" are cell matches and superlatives."""
MAX_NODES = 16
"""How many of a question's nodes are ranked, the first ones; "links" are lost first."""
MAX_CANDIDATES = 16
"""How many cells and pages of a row one can hop to, the first ones."""


@dataclass(frozen=True, slots=True)
class Node:
    """A cell, or a page that a cell links to, that a question seems to speak of.

    Args:
        content: the cell's text, or the page's title.
        coordinate: (row, column) of the cell, both from 0.
        link: the page's key in `Table.passages`; None for a cell.
        fact: the sentence of the page that fits the question; for a cell what links it: "string match", "minimum",
            "maximum", "earliest" or "latest".
        confidence: a distance for pages (small is good), a share of matching characters for cells (large is good).
        header: text of the column's header.
        source: what found the node.
    """

    content: str
    coordinate: tuple[int, int]
    link: str | None
    fact: str
    confidence: float
    header: str
    source: Source


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cell of the row of a node, or a page linked from one, that may hold the answer.

    Args:
        content: the cell's text, or the page's title.
        coordinate: (row, column) of the cell, both from 0.
        link: the page's key in `Table.passages`; None for a cell.
        header: text of the column's header.
        sentence: the first one of the page; empty for a cell.
    """

    content: str
    coordinate: tuple[int, int]
    link: str | None
    header: str
    sentence: str
