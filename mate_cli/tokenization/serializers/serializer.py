"""What turns questions about tables into encodings."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from pydantic import Field

from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableEncoding
from mate_cli.tokenization.vocabulary import Vocabulary

Label = Literal["cells", "span", "pieces", "nodes", "hops", "evidence", "rows", "answer", "options", "sql"]
"""What `label_ids` can mark: the cells of an answer, its text in one cell, masked word pieces, the right ones of
candidates (nodes that a question is linked to, ends of a hop, options), or of evidence the cells or documents that hold
the answer, the rows that do, and the answer's text with the sentences that support it; "sql" is a query, of which no
token is a part."""

OF_ANSWERS: tuple[Label, ...] = ("cells", "span")
"""Labels that mark tokens of an answer."""

LABELLED: Mapping[Label, str] = {
    "cells": "encoding=table",
    "span": "encoding=cell",
    "pieces": "encoding=masked",
    "nodes": "encoding=ranking",
    "hops": "encoding=hopping",
    "evidence": "encoding=evidence",
    "rows": "encoding=rows",
    "answer": "encoding=documents",
    "sql": "encoding=schema",
    "options": "encoding=options",
}
"""What to type for an encoding with each label; others may have it too."""

LOADED = ("tokenizer", "ranker", "ranked_by")
"""What is loaded for a serializer, and from where; what is loaded says itself what it is."""
OF_TRAINING = ("shuffle",)
"""Options that change nothing before an encoding is learnt from."""
MAX_LINES = 255
"""Row and column ids of tables end here, because their embedding tables do."""


Augmentation = Callable[[TableEncoding, np.random.Generator], TableEncoding]
"""Random change of an encoding; all chance comes from the generator."""


@dataclass(frozen=True, slots=True)
class EncodingFailure:
    """Why an example cannot be encoded."""

    example_id: str
    reason: str


@dataclass(eq=False)
class Serializer(ABC):
    """Turns questions about tables into `TableEncoding`s.

    Args:
        tokenizer: the vocabulary.
        max_tokens: the longest encoding.
        reset_positions: positions restart in every cell; only noted here, for whoever makes batches.
    """

    tokenizer: Vocabulary
    _: KW_ONLY
    max_tokens: Annotated[int, Field(ge=8)] = 512
    reset_positions: bool = False

    @property
    def vocab_size(self) -> int:
        """How many word pieces there are."""
        return self.tokenizer.vocab_size

    @property
    def fingerprint(self) -> str:
        """A text that differs whenever the encodings would."""
        names = [field.name for field in fields(self) if field.name not in (*LOADED, *OF_TRAINING)]
        options = {name: getattr(self, name) for name in names}
        return f"{type(self).__name__} {json.dumps(options, sort_keys=True)} {self.tokenizer.fingerprint}"

    @property
    def augmentation(self) -> Augmentation | None:
        """Random change of an encoding each time that it is learnt from; None where it stays the same."""
        return None

    @classmethod
    @abstractmethod
    def marks(cls, options: Mapping[str, Any]) -> Label:
        """What the labels of its encodings mark, by its options: known before any vocabulary is read."""

    @abstractmethod
    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode examples; the result has their order and number."""


class SpanSerializer(Protocol):
    """A serializer whose encodings can be read from."""

    def span_text(self, example: TableExample, start: int, end: int) -> str:
        """What the tokens from `start` to `end`, both among them, say in the table or passage."""
