"""How texts that are read side by side relate: by what they are cells of, by their pages, by what they mention."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Kind = Literal["row", "first", "column", "page", "link", "mention", "next", "all"]
KINDS: tuple[Kind, ...] = ("row", "first", "column", "page", "link", "mention", "next", "all")
"""The kinds of relations; the place, from 1, is the number of a kind, 0 being no relation."""
LEAST_TITLE = 2
"""A title of fewer characters is not looked for in other texts."""

_BRACKET = re.compile(r"\s*\([^()]*\)\s*$")


@dataclass(frozen=True, slots=True)
class EvidenceNode:
    """One text of a graph.

    Args:
        row: body row that it is of, from 0.
        column: column, from 0; of a whole row the first one.
        title: what others may mention it by.
        text: what it says itself.
        pages: links of the pages that it tells of.
        asks: rows whose texts the data say it sees, such as those that link to its page.
    """

    row: int
    column: int
    title: str
    text: str
    pages: tuple[str, ...] = ()
    asks: tuple[int, ...] = ()


def relate(nodes: Sequence[EvidenceNode], kinds: Sequence[Kind]) -> np.ndarray:
    """How node i, which asks, relates to node j, which is asked: uint8 [K, K].

    Entry (i, j) is the number of the first of `kinds` that holds, 0 where none does; no node relates to itself.
    `row` and `column`: cells of one line. `first`: cells of one row, one of them the first. `page`: both tell of one
    page. `link`: the data say so. `mention`: the title of i, without its bracket, stands in the text of j. `next`: j is
    the node before i. `all`: always.

    Args:
        nodes: K texts.
        kinds: in the order in which they are tried.
    """
    related = np.zeros((len(nodes), len(nodes)), np.uint8)
    for kind in kinds:
        holds = _FOUND[kind](nodes)
        related[(related == 0) & holds] = KINDS.index(kind) + 1
    np.fill_diagonal(related, 0)
    return related


def bare_title(title: str) -> str:
    """A title as sentences say it: "Alva (river)" is "alva"."""
    return _BRACKET.sub("", title).strip().lower()


def mentions(title: str, text: str) -> bool:
    """Whether a title, without its bracket, stands in a text as words of their own."""
    bare = bare_title(title)
    return len(bare) >= LEAST_TITLE and re.search(rf"(?<!\w){re.escape(bare)}(?!\w)", text.lower()) is not None


def _pairs(holds: Callable[[EvidenceNode, EvidenceNode], bool]) -> Callable[[Sequence[EvidenceNode]], np.ndarray]:
    """Of which nodes something holds, Bool [K, K]: the one that asks, and the one that is asked."""
    return lambda nodes: np.array([[holds(own, other) for other in nodes] for own in nodes], bool)


def _same(key: Callable[[EvidenceNode], int]) -> Callable[[Sequence[EvidenceNode]], np.ndarray]:
    def found(nodes: Sequence[EvidenceNode]) -> np.ndarray:
        keys = np.array([key(node) for node in nodes])
        return keys[:, None] == keys

    return found


def _with_first(nodes: Sequence[EvidenceNode]) -> np.ndarray:
    """Pairs of which one is the first node of its row."""
    rows = [node.row for node in nodes]
    first = np.array([rows.index(row) == place for place, row in enumerate(rows)])
    return first[:, None] | first


_FOUND: dict[Kind, Callable[[Sequence[EvidenceNode]], np.ndarray]] = {
    "row": _same(lambda node: node.row),
    "first": lambda nodes: _same(lambda node: node.row)(nodes) & _with_first(nodes),
    "column": _same(lambda node: node.column),
    "page": _pairs(lambda own, other: any(page in other.pages for page in own.pages)),
    "link": _pairs(lambda own, other: other.row in own.asks),
    "mention": _pairs(lambda own, other: mentions(own.title, other.text)),
    "next": lambda nodes: np.eye(len(nodes), k=-1, dtype=bool),
    "all": lambda nodes: np.ones((len(nodes), len(nodes)), bool),
}
