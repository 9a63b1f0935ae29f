"""Serializers of Hybrider's stages 1 and 2, which encode each candidate of a question as a separate BERT input.

Source: Chen et al. 2020, "HybridQA", section 4.2; wenhuchen/HybridQA, `train_stage12.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from mate_cli.papers.hybrider.linking import link_question
from mate_cli.papers.hybrider.nodes import MAX_NODES, SOURCES, LinkedExample, Node
from mate_cli.papers.hybrider.targets import find_target, hop_candidates, hop_labels, ranking_labels
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tokenization.expansion import Parts
from mate_cli.tokenization.layout import TableEncoding, TokenArrays
from mate_cli.tokenization.serializers.serializer import EncodingFailure, Label, Serializer
from mate_cli.tokenization.table_pieces import PieceCache


class CandidateTexts(NamedTuple):
    """The texts, label and features of one candidate (a cell or page) before tokenization.

    Args:
        text: text between the question and the context.
        context: text after the last [SEP].
        label: True if the candidate is correct.
        features: values of the side features.
    """

    text: Parts
    context: Parts
    label: bool = False
    features: tuple[int, ...] = ()


@dataclass(eq=False)
class CandidateSerializer(Serializer):
    """Encodes [CLS] question [SEP] node [SEP] context, for every candidate cell or page.

    Row ids number the candidates from 1. As in wenhuchen/HybridQA, the question and the context have segment id 1,
    and the text between them has segment id 0.

    Args:
        max_tokens: maximum number of tokens of all candidates together. The last candidates that do not fit are
            dropped.
        candidate_tokens: maximum number of tokens per candidate; longer candidates are truncated.
        reset_positions: positions restart in every candidate; must be true.
    """

    max_tokens: Annotated[int, Field(ge=8)] = 2048
    reset_positions: bool = True
    candidate_tokens: Annotated[int, Field(ge=8)] = 128

    def __post_init__(self) -> None:
        self._cache = PieceCache(self.tokenizer)

    @abstractmethod
    def candidates(self, example: TableExample) -> list[CandidateTexts] | str:
        """Return the candidates of a question, or describe why the question has no candidates."""

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode each example as `TableEncoding`, or return an `EncodingFailure` with the reason, in the same order."""
        candidates = [self.candidates(example) for example in examples]
        groups = [group for group in candidates if not isinstance(group, str)]
        texts = [part for group in groups for candidate in group for part in candidate.text + candidate.context]
        self._cache.add([*texts, *(example.question for example in examples)])
        return [self._encode(example, group) for example, group in zip(examples, candidates, strict=True)]

    def _encode(self, example: TableExample, candidates: list[CandidateTexts] | str) -> TableEncoding | EncodingFailure:
        if isinstance(candidates, str):
            return EncodingFailure(example.example_id, candidates)
        laid_out = [self._lay_out(example.question, candidate) for candidate in candidates]
        end_offsets = np.cumsum([ids.shape[1] for ids in laid_out])
        count = int((end_offsets <= self.max_tokens).sum())
        ids, segments = np.concatenate(laid_out[:count], axis=1)
        owner = np.repeat(np.arange(count), np.diff(end_offsets[:count], prepend=0))
        tokens = TokenArrays(len(ids))
        tokens.fill(input_ids=ids, segment_ids=segments, column_ids=1, row_ids=owner + 1)
        tokens.fill(label_ids=np.array([candidate.label for candidate in candidates[:count]])[owner])
        side_features = np.array([candidate.features for candidate in candidates[:count]], dtype=np.float32)
        return tokens.encoding(example.example_id, cell_features=side_features if side_features.size else None)

    def _lay_out(self, question: str, candidate: CandidateTexts) -> np.ndarray:
        """Encode a question and one candidate as token ids and segment ids, Int32 [2, tokens]."""
        cls, sep = [self.tokenizer.cls_id], [self.tokenizer.sep_id]
        question_ids = np.concatenate([cls, self._cache[question,], sep])
        node_ids = np.concatenate([self._cache[candidate.text], sep])
        ids = np.concatenate([question_ids, node_ids, self._cache[candidate.context]])
        segments = np.ones_like(ids)
        segments[len(question_ids) : len(question_ids) + len(node_ids)] = 0
        return np.stack([ids, segments]).astype(np.int32)[:, : min(self.candidate_tokens, self.max_tokens)]


def node_parts(node: Node) -> Parts:
    """Return the text of a linked cell or page in parts: column header, content and linking fact."""
    return (node.header, "is", node.content, ".", *(("Fact :", node.fact) if node.fact else ()))


CONFIDENCES = 10
"""Number of values of the feature "confidence" of a node."""


@dataclass(eq=False)
class RankingSerializer(CandidateSerializer):
    """Serializer of Hybrider's stage 1, which ranks the first 16 nodes that a question is linked to.

    Links the question unless it is a `LinkedExample` with nodes.
    """

    @classmethod
    def label_kind(cls, options: Mapping[str, Any]) -> Label:
        """Return "nodes", the name of labels that mark linked cells and pages in an answer row."""
        return "nodes"

    def candidates(self, example: TableExample) -> list[CandidateTexts] | str:
        """Return the nodes that a question is linked to, or describe why it has none."""
        nodes = example.nodes if isinstance(example, LinkedExample) else link_question(example)
        if not nodes:
            return "nothing in the table is linked to the question"
        labels = ranking_labels(find_target(example, nodes), nodes) or (0,) * len(nodes)
        side_features = ((confidence_bucket(node.confidence), SOURCES.index(node.source)) for node in nodes)
        return [
            CandidateTexts(node_parts(node), _rest_of_row(example.table, node), label == 1, features)
            for node, label, features in zip(nodes[:MAX_NODES], labels, side_features, strict=False)
        ]


def confidence_bucket(confidence: float) -> int:
    """Discretize a confidence from 0 to 1 to a bucket from 0 to 9, which selects a learned embedding.

    Rounding errors are those of wenhuchen/HybridQA: 0.3 / 0.1 is slightly less than 3.
    """
    return max(0, int(confidence / 0.1) - 1)


def _rest_of_row(table: Table, node: Node) -> Parts:
    row, column = node.coordinate
    pairs = enumerate(zip(table.header, table.rows[row], strict=False))
    other_pairs = [pair for index, pair in pairs if index != column]
    parts = [part for header, cell in other_pairs for part in (header.text, "is", cell.text, ";")]
    return (*parts[:-1], ".")


@dataclass(eq=False)
class HoppingSerializer(CandidateSerializer):
    """Serializer of Hybrider's stage 2, which selects the hop from the current node.

    The candidates are the first 16 cells and linked pages in the row of the example's current node.
    """

    @classmethod
    def label_kind(cls, options: Mapping[str, Any]) -> Label:
        """Return "hops", the name of labels that mark the candidate that contains the answer."""
        return "hops"

    def candidates(self, example: TableExample) -> list[CandidateTexts] | str:
        """Return the cells and pages to hop to from the current node, or describe why there are none."""
        if not isinstance(example, LinkedExample) or example.current is None:
            return "no node to hop from"
        hops = hop_candidates(example.table, example.current.coordinate[0])
        if not hops:
            return "the row has no text"
        labels = hop_labels(find_target(example, example.nodes), hops) or (0,) * len(hops)
        current_parts = node_parts(example.current)
        return [
            CandidateTexts(current_parts, (hop.header, "is", hop.content, ".", hop.sentence), label == 1)
            for hop, label in zip(hops, labels, strict=True)
        ]
