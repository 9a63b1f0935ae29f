"""Lay out the candidates of a question one after the other, each an input of its own as BERT reads it.

Source: wenhuchen/HybridQA, `train_stage12.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from mate_cli.tables.example import TableExample
from mate_cli.tokenization.hybrider.nodes import Node
from mate_cli.tokenization.layout import TableEncoding, TokenArrays
from mate_cli.tokenization.pieces.pieces import Parts, PieceCache
from mate_cli.tokenization.serializers.serializer import EncodingFailure, Serializer


class CandidateTexts(NamedTuple):
    """One candidate before it is split into word pieces. `told` stands between the question and the context."""

    told: Parts
    context: Parts
    right: bool = False
    side: tuple[int, ...] = ()


@dataclass(eq=False)
class CandidateSerializer(Serializer):
    """[CLS] question [SEP] told [SEP] context, for every candidate; row ids number the candidates from 1.

    As in the reference, the question and the context are of segment 1, what stands between them of segment 0.

    Args:
        max_tokens: of all candidates together; the last candidates that do not fit are dropped.
        candidate_tokens: each candidate is cut at so many.
        reset_positions: positions restart in every candidate, as they must.
    """

    max_tokens: Annotated[int, Field(ge=8)] = 2048
    reset_positions: bool = True
    candidate_tokens: Annotated[int, Field(ge=8)] = 128

    def __post_init__(self) -> None:
        self._pieces = PieceCache(self.tokenizer)

    @abstractmethod
    def candidates(self, example: TableExample) -> list[CandidateTexts] | str:
        """The candidates of a question, or the reason why there are none."""

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode examples; the result has their order and number."""
        found = [self.candidates(example) for example in examples]
        texts = [part for some in found if not isinstance(some, str) for one in some for part in one.told + one.context]
        self._pieces.add([*texts, *(example.question for example in examples)])
        return [self._encode(example, some) for example, some in zip(examples, found, strict=True)]

    def _encode(self, example: TableExample, found: list[CandidateTexts] | str) -> TableEncoding | EncodingFailure:
        if isinstance(found, str):
            return EncodingFailure(example.example_id, found)
        laid_out = [self._lay_out(example.question, one) for one in found]
        ends = np.cumsum([ids.shape[1] for ids in laid_out])
        kept = int((ends <= self.max_tokens).sum())
        ids, segments = np.concatenate(laid_out[:kept], axis=1)
        owner = np.repeat(np.arange(kept), np.diff(ends[:kept], prepend=0))
        tokens = TokenArrays(len(ids))
        tokens.fill(input_ids=ids, segment_ids=segments, column_ids=1, row_ids=owner + 1)
        tokens.fill(label_ids=np.array([one.right for one in found[:kept]])[owner])
        side = np.array([one.side for one in found[:kept]], dtype=np.float32)
        return tokens.encoding(example.example_id, cell_features=side if side.size else None)

    def _lay_out(self, question: str, candidate: CandidateTexts) -> np.ndarray:
        """Word pieces and segments of one candidate, Int32 [2, tokens]."""
        begin, end = [self.tokenizer.cls_id], [self.tokenizer.sep_id]
        asked = np.concatenate([begin, self._pieces[question,], end])
        told = np.concatenate([self._pieces[candidate.told], end])
        ids = np.concatenate([asked, told, self._pieces[candidate.context]])
        segments = np.ones_like(ids)
        segments[len(asked) : len(asked) + len(told)] = 0
        return np.stack([ids, segments]).astype(np.int32)[:, : min(self.candidate_tokens, self.max_tokens)]


def node_parts(node: Node) -> Parts:
    """What is told of a node: its column, its text, and the fact that links it."""
    return (node.header, "is", node.content, ".", *(("Fact :", node.fact) if node.fact else ()))
