"""Relations of texts that are read side by side, by the cells, pages and mentions they are of; and the texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tables.text import split_sentences
from mate_cli.tokenization.expansion import Parts, expand_cell
from mate_cli.tokenization.layout import Array

RELATIONS = Array(("K", "K"), "uint8", name="relations")
"""How node i, which asks, relates to node j, which is asked: 0 not at all, else a place in `KINDS`, from 1; every node
to every other where nobody says."""
NODE_CELLS = Array(("K", 2), "int16", fill=-1, name="node_cells")
"""The body cell that each node is of, (row, column) from 0."""
SENTENCE_IDS = Array(("T",), "int16", name="sentence_ids")
"""Of each token of a node's own text, the number of its sentence from 1; 0 elsewhere."""

Kind = Literal["row", "first", "column", "page", "link", "mention", "next", "all"]
KINDS: tuple[Kind, ...] = ("row", "first", "column", "page", "link", "mention", "next", "all")
"""The kinds of relations; the place, from 1, is the number of a kind, 0 being no relation."""
MIN_TITLE = 2
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
    """Relate node i, which asks, to node j, which is asked: uint8 [K, K].

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
    """Return a title as sentences say it: "Alva (river)" is "alva"."""
    return _BRACKET.sub("", title).strip().lower()


def mentions(title: str, text: str) -> bool:
    """Tell whether a title, without its bracket, stands in a text as words of their own."""
    bare = bare_title(title)
    return len(bare) >= MIN_TITLE and re.search(rf"(?<!\w){re.escape(bare)}(?!\w)", text.lower()) is not None


def _pairs(holds: Callable[[EvidenceNode, EvidenceNode], bool]) -> Callable[[Sequence[EvidenceNode]], np.ndarray]:
    """Tell of which nodes something holds, Bool [K, K]: the one that asks, and the one that is asked."""
    return lambda nodes: np.array([[holds(node, other) for other in nodes] for node in nodes], bool)


def _equal(lines: Iterable[int]) -> np.ndarray:
    """Return pairs of nodes of one line."""
    numbers = np.array(list(lines))
    return numbers[:, None] == numbers


def _with_first(nodes: Sequence[EvidenceNode]) -> np.ndarray:
    """Return pairs of which one is the first node of its row."""
    rows = [node.row for node in nodes]
    first = np.array([rows.index(row) == place for place, row in enumerate(rows)])
    return first[:, None] | first


_FOUND: dict[Kind, Callable[[Sequence[EvidenceNode]], np.ndarray]] = {
    "row": lambda nodes: _equal(node.row for node in nodes),
    "first": lambda nodes: _equal(node.row for node in nodes) & _with_first(nodes),
    "column": lambda nodes: _equal(node.column for node in nodes),
    "page": _pairs(lambda node, other: any(page in other.pages for page in node.pages)),
    "link": _pairs(lambda node, other: other.row in node.asks),
    "mention": _pairs(lambda node, other: mentions(node.title, other.text)),
    "next": lambda nodes: np.eye(len(nodes), k=-1, dtype=bool),
    "all": lambda nodes: np.ones((len(nodes), len(nodes)), bool),
}


Unit = Literal["cell", "row", "document", "segment"]
"""What a node is: a cell or a row, each with sentences of its pages; a cell's page as a whole; or a part of that page,
so long that it fits."""


@dataclass(frozen=True, slots=True)
class NodeText:
    """A node with its text as it is laid out."""

    node: EvidenceNode
    sentences: tuple[Parts, ...]
    title: str = ""
    first: int = 0

    @property
    def body(self) -> str:
        """Its text."""
        return " ".join(part for parts in self.sentences for part in parts)


def evidence_texts(example: TableExample, unit: Unit, additions: Mapping[str, Parts]) -> list[NodeText]:
    """Return the texts of an example in reading order, those without words left out.

    Segments are cut where their length is known; documents are told whole, without additions.
    """
    if unit == "row":
        return [text for row in range(len(example.table.rows)) if (text := _row(example.table, row, additions))]
    if unit == "cell":
        return list(_cells(example.table, additions))
    return list(_documents(example))


def row_documents(table: Table) -> list[str]:
    """Return all that can be read of each row: its cells and what they link to."""
    return [
        " ".join([cell.text + " " + " ".join(table.passages.get(link, "") for link in cell.links) for cell in row])
        for row in table.rows
    ]


def _cells(table: Table, additions: Mapping[str, Parts]) -> Iterator[NodeText]:
    for row, column, cell in table.cells():
        if cell.text.strip() or cell.links:
            parts = (table.header[column].text, "is", *expand_cell(cell, additions))
            text = " ".join(parts)
            yield NodeText(EvidenceNode(row, column, cell.text, text, cell.links), (parts,))


def _row(table: Table, row: int, additions: Mapping[str, Parts]) -> NodeText | None:
    cells = table.rows[row]
    facts = [(name.text, "is", *expand_cell(cell, additions)) for name, cell in zip(table.header, cells, strict=False)]
    parts = tuple(part for fact in facts for part in (*fact, ";"))[:-1]
    if not any(cell.text.strip() for cell in cells):
        return None
    pages = tuple(dict.fromkeys(link for cell in cells for link in cell.links))
    return NodeText(EvidenceNode(row, 0, cells[0].text, " ".join(parts), pages), (parts,))


def _documents(example: TableExample) -> Iterator[NodeText]:
    for row, column, cell in example.table.cells():
        sentences = example.sentences[row] if example.sentences else _sentences(example.table, cell)
        if sentences or cell.text.strip():
            asks = tuple(dict.fromkeys(link.source for link in example.links if link.target == row))
            node = EvidenceNode(row, column, cell.text, " ".join(sentences), cell.links, asks)
            yield NodeText(node, tuple((sentence,) for sentence in sentences), cell.text)


def _sentences(table: Table, cell: Cell) -> tuple[str, ...]:
    return tuple(sentence for link in cell.links for sentence in split_sentences(table.passages.get(link, "")))
