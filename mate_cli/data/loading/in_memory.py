"""Encodings in memory, for examples that are encoded once and not cached on disk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mate_cli.tables.example import TableExample
from mate_cli.tokenization.fitting.truncation import TRUNCATION_COUNTS
from mate_cli.tokenization.layout import TableEncoding
from mate_cli.tokenization.serializers.serializer import EncodingFailure, Serializer


class EncodedExamples:
    """In-memory counterpart of `EncodedSplit`: the encodings in the order of their examples.

    Args:
        examples: examples to encode.
        serializer: serializer that encodes the examples.

    Attributes:
        cuts: counts of truncated parts of each table, [N, 4], see `TRUNCATION_COUNTS`. [0, 4] if not counted.
    """

    def __init__(self, examples: Sequence[TableExample], serializer: Serializer) -> None:
        results = serializer.encode(examples)
        self.example_ids = [result.example_id for result in results]
        self.failures = {result.example_id: result.reason for result in results if isinstance(result, EncodingFailure)}
        self._encodings = [result for result in results if isinstance(result, TableEncoding)]
        self.lengths = np.array([len(result) for result in self._encodings], int)
        counts = [result.cut for result in self._encodings if result.cut is not None]
        self.cuts = np.array(counts, np.int32).reshape(-1, len(TRUNCATION_COUNTS))

    def __len__(self) -> int:
        return len(self._encodings)

    def __getitem__(self, index: int) -> TableEncoding:
        """Return the encoding at `index`. Examples that could not be encoded are not counted."""
        return self._encodings[index]
