"""Serializers, which turn questions about tables into encodings."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

import numpy as np
from pydantic import Field

from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import Array, TableEncoding
from mate_cli.tokenization.vocabulary import Vocabulary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Label = str
"""What the labels of an encoding mark: "cells", or any other word that a task and a serializer share."""

OF_ANSWERS = ("cells", "span")
"""Labels that mark tokens of an answer."""

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
    """Reason why an example cannot be encoded."""

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

    arrays: ClassVar[Sequence[Array]] = ()
    """Arrays that its encodings have beside the fields of `TableEncoding`, each with a name: what `TableEncoding.more`
    holds, and a batch then has in `TableBatch.more`."""

    tokenizer: Vocabulary
    _: KW_ONLY
    max_tokens: Annotated[int, Field(ge=8)] = 512
    reset_positions: bool = False

    @property
    def vocab_size(self) -> int:
        """Number of word pieces."""
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
    def marks(cls, options: Mapping[str, Any]) -> Label:
        """Name the label of its encodings, by its options: known before any vocabulary is read.

        That is the option `label`, and the cells of an answer where there is none.
        """
        return str(options.get("label", getattr(cls, "label", "cells")))

    view: ClassVar[str] = ""
    """The name of the picture that `draw` makes; empty where `mate inspect` shows words and masks."""

    def draw(self, example: TableExample, encoding: TableEncoding, encoder: Any) -> Figure:  # noqa: ANN401
        """Print an example in a way of its own and draw it, with the network where there is one."""
        raise NotImplementedError

    @abstractmethod
    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode examples; the result has their order and number."""


class SpanSerializer(Protocol):
    """A serializer whose encodings can be read from."""

    def span_text(self, example: TableExample, start: int, end: int) -> str:
        """Return the text of the tokens from `start` to `end`, both among them, in the table or passage."""
