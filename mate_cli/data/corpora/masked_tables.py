"""One masked example of each table, every time it comes by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mate_cli.data.corpora.corpus import CorpusTable
from mate_cli.errors import ConfigError
from mate_cli.tokenization.layout import TableEncoding
from mate_cli.tokenization.serializers.masking import GeneratorDraws, MaskingSerializer
from mate_cli.tokenization.serializers.serializer import Serializer


class MaskedTables:
    """Makes examples of masked language modelling.

    Args:
        serializer: makes them.

    Raises:
        ConfigError: the serializer masks nothing.
    """

    def __init__(self, serializer: Serializer) -> None:
        if not isinstance(serializer, MaskingSerializer):
            raise ConfigError("this encoding masks nothing", where="encoding", remedy="Use encoding=masked")
        self._serializer = serializer

    def make(
        self, name: str, table: Callable[[], CorpusTable], generator: np.random.Generator
    ) -> Sequence[TableEncoding]:
        """One example; the table is split into word pieces the first time only."""
        known = self._serializer.remembered(name, lambda: table().content)
        return [self._serializer.mask(known, GeneratorDraws(generator), name)]
