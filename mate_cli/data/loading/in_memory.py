"""Encodings that nobody wants again: in memory, and never on disk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mate_cli.tables.example import TableExample
from mate_cli.tokenization.fitting.truncation import TRUNCATION_COUNTS
from mate_cli.tokenization.layout import TableEncoding
from mate_cli.tokenization.serializers.serializer import EncodingFailure, Serializer


class EncodedExamples:
    """Encodings of examples in their order, as `EncodedSplit` has them on disk.

    Args:
        examples: what is encoded.
        serializer: how.

    Attributes:
        cuts: what was cut from each table, [N, 4], see `TRUNCATION_COUNTS`; [0, 4] where the serializer does not count.
    """

    def __init__(self, examples: Sequence[TableExample], serializer: Serializer) -> None:
        found = serializer.encode(examples)
        self.example_ids = [one.example_id for one in found]
        self.failures = {one.example_id: one.reason for one in found if isinstance(one, EncodingFailure)}
        self._encodings = [one for one in found if isinstance(one, TableEncoding)]
        self.lengths = np.array([len(one) for one in self._encodings], int)
        counted = [one.cut for one in self._encodings if one.cut is not None]
        self.cuts = np.array(counted, np.int32).reshape(-1, len(TRUNCATION_COUNTS))

    def __len__(self) -> int:
        return len(self._encodings)

    def __getitem__(self, index: int) -> TableEncoding:
        """Return the encoding at `index`, counting only examples that could be encoded."""
        return self._encodings[index]
