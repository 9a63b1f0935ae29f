"""Questions about documents that are linked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mate_cli.tables.example import TableExample


class DocumentLink(NamedTuple):
    """One document links to another.

    Args:
        source: row of the document with the link, from 0.
        target: row of the document that it leads to.
        text: what stands around the link; empty where the data do not say.
    """

    source: int
    target: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class EvidenceExample(TableExample):
    """A question about documents: each is a row of one cell, its title, which links to its text.

    Args:
        sentences: of each row, its text in sentences, as the data part it.
        supporting: (row, sentence) of the sentences that lead to the answer, both from 0.
        links: which document links to which, where the data say so.
        unjudged: rows of which nobody knows whether they hold the answer.
    """

    sentences: tuple[tuple[str, ...], ...] = ()
    supporting: tuple[tuple[int, int], ...] = ()
    links: tuple[DocumentLink, ...] = ()
    unjudged: tuple[int, ...] = ()
