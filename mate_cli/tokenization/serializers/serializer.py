"""Base class of serializers, which encode questions about tables."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

import numpy as np
from pydantic import Field

from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import Array, TableEncoding
from mate_cli.tokenization.vocabulary import Vocabulary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Label = str
"""Name of the labels in an encoding, such as "cells" or "span". A task checks that its serializer produces the name
that it trains on."""

OF_ANSWERS = ("cells", "span")
"""Label kinds that annotate the tokens of an answer."""

LOADED_OPTIONS = ("tokenizer", "ranker", "ranked_by")
"""Constructor arguments that are not part of `fingerprint`, because they are loaded objects with own fingerprints."""
TRAINING_ONLY_OPTIONS = ("shuffle",)
"""Options that affect encodings only in training, and are therefore excluded from the fingerprint."""
MAX_LINES = 255
"""Largest row and column id, given by the size of their embedding tables."""


Augmentation = Callable[[TableEncoding, np.random.Generator], TableEncoding]
"""Random change of an encoding. The generator is the only source of randomness."""


@dataclass(frozen=True, slots=True)
class EncodingFailure:
    """Result of encoding an example that cannot be encoded, with the reason."""

    example_id: str
    reason: str


@dataclass(eq=False, kw_only=True)
class Serializer(ABC):
    """Base class of serializers, which encode questions about tables as token sequences (`TableEncoding`).

    Args:
        tokenizer: vocabulary of the network.
        max_tokens: maximum number of tokens of an encoding.
        reset_positions: whether positions restart in every cell. Used by the collator, not by the serializer.
    """

    arrays: ClassVar[Sequence[Array]] = ()
    """Named arrays in addition to the fields of `TableEncoding`. Encodings store them in `TableEncoding.more`, batches
    in `TableBatch.more`."""

    tokenizer: Vocabulary = field(kw_only=False)
    max_tokens: Annotated[int, Field(ge=8)] = 512
    reset_positions: bool = False

    @property
    def vocab_size(self) -> int:
        """Number of tokens in the vocabulary."""
        return self.tokenizer.vocab_size

    @property
    def fingerprint(self) -> str:
        """Text of all options that affect encodings, which is part of the key of cached encodings."""
        names = [field.name for field in fields(self) if field.name not in (*LOADED_OPTIONS, *TRAINING_ONLY_OPTIONS)]
        options = {name: getattr(self, name) for name in names}
        return f"{type(self).__name__} {json.dumps(options, sort_keys=True)} {self.tokenizer.fingerprint}"

    @property
    def augmentation(self) -> Augmentation | None:
        """Function that randomly changes an encoding at each use in training, or None for no change."""
        return None

    @classmethod
    def label_kind(cls, options: Mapping[str, Any]) -> Label:
        """Return the type of the labels in the encodings, such as "cells", without loading a vocabulary.

        Args:
            options: options of the serializer. The label kind is the option `label`, by default the attribute `label`
                of the class, else "cells".
        """
        return str(options.get("label", getattr(cls, "label", "cells")))

    view: ClassVar[str] = ""
    """Name of the figure that `draw` makes. If empty, `mate inspect` shows tokens and attention masks instead."""

    def draw(self, example: TableExample, encoding: TableEncoding, encoder: Any) -> Figure:  # noqa: ANN401
        """Print an example as this serializer encodes it, and return a figure of the example.

        Args:
            example: example to draw.
            encoding: encoding of the example.
            encoder: trained network, or None.
        """
        raise NotImplementedError

    @abstractmethod
    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode each example as `TableEncoding`, or return an `EncodingFailure` with the reason, in the same order."""


class SpanSerializer(Protocol):
    """Protocol of serializers for span reading, which map tokens back to text."""

    def span_text(self, example: TableExample, start: int, end: int) -> str:
        """Return the text of a span of tokens, as written in the table or passage.

        Args:
            example: encoded example.
            start: index of the first token of the span.
            end: index of the last token of the span (inclusive).
        """
