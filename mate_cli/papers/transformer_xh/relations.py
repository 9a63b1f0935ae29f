"""Nodes of an evidence graph and the relations between nodes.

A relation follows from shared rows, columns or pages, links, mentions or the reading order.
"""

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
"""Relation of node i (query) to node j (key): 0 for none, else index in `KINDS` plus 1.

Without this array every node is related to all other nodes.
"""
NODE_CELLS = Array(("K", 2), "int16", fill=-1, name="node_cells")
"""Body cell of each node as (row, column), both from 0."""
SENTENCE_IDS = Array(("T",), "int16", name="sentence_ids")
"""Number of the sentence of each token of a node's text, from 1; 0 for other tokens."""

Kind = Literal["row", "first", "column", "page", "link", "mention", "next", "all"]
KINDS: tuple[Kind, ...] = ("row", "first", "column", "page", "link", "mention", "next", "all")
"""The types of relations. The id of a type is its index plus 1; id 0 is no relation."""
MIN_TITLE = 2
"""Minimum length in characters of a title to search for in other texts."""

_BRACKET = re.compile(r"\s*\([^()]*\)\s*$")


@dataclass(frozen=True, slots=True)
class EvidenceNode:
    """One node of a graph of texts, such as a cell, a row or a document.

    Args:
        row: body row of the text, from 0.
        column: column, from 0; 0 for the text of a whole row.
        title: the name by which other texts may mention this node.
        text: the content of the node.
        pages: links of the pages that the text describes.
        asks: rows whose texts this node attends to according to the dataset, such as rows that link to its page.
    """

    row: int
    column: int
    title: str
    text: str
    pages: tuple[str, ...] = ()
    asks: tuple[int, ...] = ()


def relate(nodes: Sequence[EvidenceNode], kinds: Sequence[Kind]) -> np.ndarray:
    """Return the relation id from each query node i to each key node j, UInt8 [K, K].

    Entry (i, j) is the id of the first of `kinds` that applies, 0 if none applies. No node is related to itself.
    `row` and `column`: cells of one row or column. `first`: cells of one row, one of them the first. `page`: both
    describe one page. `link`: the dataset links them. `mention`: the title of i, without its parenthesis, occurs in the
    text of j. `next`: j directly precedes i. `all`: always.

    Args:
        nodes: K texts.
        kinds: types of relations in order of precedence.
    """
    relation_ids = np.zeros((len(nodes), len(nodes)), np.uint8)
    for kind in kinds:
        matches = _CONDITIONS[kind](nodes)
        relation_ids[(relation_ids == 0) & matches] = KINDS.index(kind) + 1
    np.fill_diagonal(relation_ids, 0)
    return relation_ids


def mentions(title: str, text: str) -> bool:
    """Return whether a title, without its parenthesis, occurs in a text as complete words."""
    bare = _BRACKET.sub("", title).strip().lower()  # "Alva (river)" occurs as "alva".
    return len(bare) >= MIN_TITLE and re.search(rf"(?<!\w){re.escape(bare)}(?!\w)", text.lower()) is not None


def _pairs(holds: Callable[[EvidenceNode, EvidenceNode], bool]) -> Callable[[Sequence[EvidenceNode]], np.ndarray]:
    """Make a function that evaluates a condition for all pairs of graph nodes, Bool [K, K]."""
    return lambda nodes: np.array([[holds(node, target) for target in nodes] for node in nodes], bool)


def _equal(lines: Iterable[int]) -> np.ndarray:
    """Mark the pairs of graph nodes in the same row (or the same column), Bool [K, K].

    `lines` has the row or column index of each of the K nodes. The number is the row index of the node, or its column
    index.
    """
    numbers = np.array(list(lines))
    return numbers[:, None] == numbers


def _with_first(nodes: Sequence[EvidenceNode]) -> np.ndarray:
    """Return the mask of node pairs in which either node is the first node of its row, Bool [K, K]."""
    rows = [node.row for node in nodes]
    first = np.array([rows.index(row) == index for index, row in enumerate(rows)])
    return first[:, None] | first


_CONDITIONS: dict[Kind, Callable[[Sequence[EvidenceNode]], np.ndarray]] = {
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
"""The text of a node.

"cell" and "row": a cell or a row, each with sentences of its pages. "document": the whole page of a cell. "segment": a
part of that page with the maximum length that fits into a node.
"""


@dataclass(frozen=True, slots=True)
class NodeText:
    """The text of one node of a graph, before tokenization.

    Args:
        node: the node.
        sentences: parts of each sentence of the text.
        title: title that precedes the text; "" for cells and rows.
        first: index of the first sentence within the document, from 0.
    """

    node: EvidenceNode
    sentences: tuple[Parts, ...]
    title: str = ""
    first: int = 0

    @property
    def body(self) -> str:
        """The sentences of the node, joined to one string."""
        return " ".join(part for parts in self.sentences for part in parts)


def evidence_texts(example: TableExample, unit: Unit, additions: Mapping[str, Parts]) -> list[NodeText]:
    """Return the texts of an example in reading order, without empty texts.

    Segments are returned as whole documents and split later, when their length in tokens is known.

    Args:
        example: the example.
        unit: the text of a node.
        additions: sentences to add after each link, by link. Ignored for documents and segments.
    """
    if unit == "row":
        return [text for row in range(len(example.table.rows)) if (text := _row(example.table, row, additions))]
    if unit == "cell":
        return list(_cells(example.table, additions))
    return list(_documents(example))


def row_documents(table: Table) -> list[str]:
    """Return the full text of each row: its cells and their linked pages."""
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
    cell_parts = [
        (name.text, "is", *expand_cell(cell, additions)) for name, cell in zip(table.header, cells, strict=False)
    ]
    parts = tuple(part for part_group in cell_parts for part in (*part_group, ";"))[:-1]
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
