"""What there is to learn from evidence: which texts hold the answer, where in them, and which sentences support it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mate_cli.tables.example import TableExample
from mate_cli.tokenization.evidence.texts import NodeText
from mate_cli.tokenization.pieces.detokenize import find_pieces
from mate_cli.tokenization.pieces.pieces import PieceCache

HAS_ANSWER, SUPPORTS, UNJUDGED = 1, 2, 4
"""Bits of `label_ids`: the answer's text; a sentence that supports it; a text of which nobody knows."""
ANSWER_KINDS = ("span", "yes", "no")
"""What an answer can be; the place is its `class_id`."""


@dataclass(frozen=True, slots=True)
class Laid:
    """A node in word pieces.

    Args:
        text: what it was.
        ids: word pieces [tokens].
        segments: 0 for the question and what is told, 1 for its own text.
        sentences: number of the sentence of each token, from 1, 0 outside.
        body: place of its text's first token, behind the title.
        cut: whether words were left out.
    """

    text: NodeText
    ids: np.ndarray
    segments: np.ndarray
    sentences: np.ndarray
    body: int
    cut: bool


def label_nodes(example: TableExample, found: Sequence[Laid], *, rows: bool) -> np.ndarray:
    """1 for each node with the answer [K]: whose cell holds it, or of `rows` any cell of whose row does."""
    right = set(example.answer.coordinates) if example.answer else set()
    right_rows = {row for row, _ in right}
    nodes = [laid.text.node for laid in found]
    return np.array([node.row in right_rows if rows else (node.row, node.column) in right for node in nodes], np.int32)


def label_answers(example: TableExample, found: Sequence[Laid], pieces: PieceCache) -> np.ndarray:
    """Bits of each token of all nodes [T]: the first place of the answer in each text that holds it, and so on."""
    right = set(example.answer.coordinates) if example.answer else set()
    texts = example.answer.texts if example.answer and class_of(example) == 0 else ()
    supporting = set(example.supporting)
    unjudged = set(example.unjudged)
    labels = []
    for laid in found:
        node, own = laid.text.node, np.zeros(len(laid.ids), np.int32)
        if (node.row, node.column) in right:
            start, end = _first_place(texts, laid, pieces)
            own[start:end] = HAS_ANSWER
        numbers = [sentence + 1 for row, sentence in supporting if row == node.row]
        own[np.isin(laid.sentences, numbers)] |= SUPPORTS
        own |= UNJUDGED * (node.row in unjudged)
        labels.append(own)
    return np.concatenate(labels)


def class_of(example: TableExample) -> int | None:
    """Of a statement its label, else the place of the answer's kind in `ANSWER_KINDS`; None where it is not known."""
    if example.answer is None or not (example.answer.texts or example.answer.label is not None):
        return None
    if example.answer.label is not None:
        return example.answer.label
    text = example.answer.texts[0].strip().lower()
    return ANSWER_KINDS.index(text) if text in ANSWER_KINDS[1:] else 0


def _first_place(texts: Sequence[str], laid: Laid, pieces: PieceCache) -> tuple[int, int]:
    """Where the first of some texts stands in a node's text, else in its title; (0, 0) where none does."""
    for text in texts:
        wanted = pieces[text,]
        for begin in (laid.body, int((laid.segments == 0).sum())):
            place = find_pieces(wanted, laid.ids[begin:])
            if place >= 0:
                return begin + place, begin + place + len(wanted)
    return 0, 0
