"""The texts of a table that can be evidence: its cells, its rows, or the documents that it links to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.evidence.relations import EvidenceNode
from mate_cli.tokenization.expansion import expanded, split_sentences
from mate_cli.tokenization.pieces.pieces import Parts

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
    """The texts of an example in reading order, those without words left out.

    Segments are cut where their length is known; documents are told whole, without additions.
    """
    if unit == "row":
        return [text for row in range(len(example.table.rows)) if (text := _row(example.table, row, additions))]
    if unit == "cell":
        return list(_cells(example.table, additions))
    return list(_documents(example))


def row_documents(table: Table) -> list[str]:
    """All that can be read of each row: its cells and what they link to."""
    return [
        " ".join([cell.text + " " + " ".join(table.passages.get(link, "") for link in cell.links) for cell in row])
        for row in table.rows
    ]


def _cells(table: Table, additions: Mapping[str, Parts]) -> Iterator[NodeText]:
    for row, column, cell in table.cells():
        if cell.text.strip() or cell.links:
            parts = (table.header[column].text, "is", *expanded(cell, additions))
            text = " ".join(parts)
            yield NodeText(EvidenceNode(row, column, cell.text, text, cell.links), (parts,))


def _row(table: Table, row: int, additions: Mapping[str, Parts]) -> NodeText | None:
    cells = table.rows[row]
    said = [(name.text, "is", *expanded(cell, additions)) for name, cell in zip(table.header, cells, strict=False)]
    parts = tuple(part for one in said for part in (*one, ";"))[:-1]
    if not any(cell.text.strip() for cell in cells):
        return None
    pages = tuple(dict.fromkeys(link for cell in cells for link in cell.links))
    return NodeText(EvidenceNode(row, 0, cells[0].text, " ".join(parts), pages), (parts,))


def _documents(example: TableExample) -> Iterator[NodeText]:
    for row, column, cell in example.table.cells():
        said = example.sentences[row] if example.sentences else _sentences(example.table, cell)
        if said or cell.text.strip():
            asks = tuple(dict.fromkeys(link.source for link in example.links if link.target == row))
            node = EvidenceNode(row, column, cell.text, " ".join(said), cell.links, asks)
            yield NodeText(node, tuple((sentence,) for sentence in said), cell.text)


def _sentences(table: Table, cell: Cell) -> tuple[str, ...]:
    return tuple(sentence for link in cell.links for sentence in split_sentences(table.passages.get(link, "")))
