"""Stage 2: from a node to the cells of its row and the pages that they link to.

Source: Chen et al. 2020, "HybridQA", section 4.2; wenhuchen/HybridQA, `train_stage12.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mate_cli.tables.example import TableExample
from mate_cli.tokenization.hybrider.candidates import CandidateSerializer, CandidateTexts, node_parts
from mate_cli.tokenization.hybrider.labels import hop_candidates, hop_labels
from mate_cli.tokenization.hybrider.nodes import LinkedExample
from mate_cli.tokenization.hybrider.targets import target_of
from mate_cli.tokenization.serializers.serializer import Label


@dataclass(eq=False)
class HoppingSerializer(CandidateSerializer):
    """Turns a `LinkedExample` with a current node into the cells and pages of that node's row, the first 16."""

    @classmethod
    def marks(cls, options: Mapping[str, Any]) -> Label:
        """Where a hop finds the answer."""
        return "hops"

    def candidates(self, example: TableExample) -> list[CandidateTexts] | str:
        """Where one can hop to, or why nowhere."""
        if not isinstance(example, LinkedExample) or example.current is None:
            return "there is no node to hop from"
        places = hop_candidates(example.table, example.current.coordinate[0])
        if not places:
            return "the row has no text"
        labels = hop_labels(target_of(example, example.nodes), places) or (0,) * len(places)
        told = node_parts(example.current)
        return [
            CandidateTexts(told, (place.header, "is", place.content, ".", place.sentence), label == 1)
            for place, label in zip(places, labels, strict=True)
        ]
