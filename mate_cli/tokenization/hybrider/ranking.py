"""Stage 1: every node that a question is linked to, with the rest of its row.

Source: Chen et al. 2020, "HybridQA", section 4.2; wenhuchen/HybridQA, `train_stage12.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tokenization.hybrider.candidates import CandidateSerializer, CandidateTexts, node_parts
from mate_cli.tokenization.hybrider.labels import ranking_labels
from mate_cli.tokenization.hybrider.linking import link_question
from mate_cli.tokenization.hybrider.nodes import MAX_NODES, SOURCES, LinkedExample, Node
from mate_cli.tokenization.hybrider.targets import target_of
from mate_cli.tokenization.pieces.pieces import Parts
from mate_cli.tokenization.serializers.serializer import Label

CONFIDENCES = 10
"""Buckets of a node's confidence."""


@dataclass(eq=False)
class RankingSerializer(CandidateSerializer):
    """Turns a question into its nodes, the first 16; a `LinkedExample` brings its own, others are linked here."""

    @classmethod
    def marks(cls, options: Mapping[str, Any]) -> Label:
        """Nodes in a row with the answer."""
        return "nodes"

    def candidates(self, example: TableExample) -> list[CandidateTexts] | str:
        """The nodes of a question, or that there are none."""
        nodes = example.nodes if isinstance(example, LinkedExample) else link_question(example)
        if not nodes:
            return "nothing in the table is linked to the question"
        labels = ranking_labels(target_of(example, nodes), nodes) or (0,) * len(nodes)
        sides = ((confidence_bucket(node.confidence), SOURCES.index(node.source)) for node in nodes)
        return [
            CandidateTexts(node_parts(node), _rest_of_row(example.table, node), label == 1, side)
            for node, label, side in zip(nodes[:MAX_NODES], labels, sides, strict=False)
        ]


def confidence_bucket(confidence: float) -> int:
    """0 to 9, with the reference's floating-point effects: 0.3 / 0.1 is a little less than 3."""
    return max(0, int(confidence / 0.1) - 1)


def _rest_of_row(table: Table, node: Node) -> Parts:
    row, column = node.coordinate
    others = [
        part
        for place, (header, cell) in enumerate(zip(table.header, table.rows[row], strict=False))
        if place != column
        for part in (header.text, "is", cell.text, ";")
    ]
    return (*others[:-1], ".")
