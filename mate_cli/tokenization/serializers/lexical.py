"""One token per cell, known not by its words but by how well these fit the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tokenization.layout import TableEncoding, TokenArrays
from mate_cli.tokenization.lexical_features import LexicalTable
from mate_cli.tokenization.serializers.serializer import MAX_LINES, EncodingFailure, Label, Serializer


@dataclass(eq=False)
class LexicalSerializer(Serializer):
    """Turns a question about a table into [CLS] and one token per body cell, each with features.

    Args:
        tokenizer: names [CLS] and the empty word, the only words there are.
        max_tokens: the longest encoding; last rows that do not fit are dropped.
        reset_positions: only noted, as the tokens of cells have no order.
    """

    max_tokens: Annotated[int, Field(ge=8)] = 4096
    reset_positions: bool = True

    @classmethod
    def marks(cls, options: Mapping[str, Any]) -> Label:
        """Return the cells of an answer."""
        return "cells"

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode examples; the result has their order and number."""
        tables = {id(example.table): example.table for example in examples}
        known = {key: self._misfit(table) or LexicalTable(table) for key, table in tables.items()}
        return [self._lay_out(example, known[id(example.table)]) for example in examples]

    def _misfit(self, table: Table) -> str:
        width = len(table.header)
        if not width or not table.rows:
            return "the table has no columns" if not width else "the table has no rows"
        if any(len(row) != width for row in table.rows):
            return "the table has rows of different lengths"
        if width > min(MAX_LINES, self.max_tokens - 1):
            return f"too many columns: {width}, at most {min(MAX_LINES, self.max_tokens - 1)}"
        return ""

    def _lay_out(self, example: TableExample, table: LexicalTable | str) -> TableEncoding | EncodingFailure:
        """Return the encoding of an example with what is known of its table, or why that cannot be encoded."""
        if isinstance(table, str):
            return EncodingFailure(example.example_id, table)
        width = table.width
        rows = min(len(example.table.rows), MAX_LINES, (self.max_tokens - 1) // width)
        cells = np.arange(rows * width)
        tokens = TokenArrays(1 + len(cells))
        tokens.fill(end=1, input_ids=self.tokenizer.cls_id)
        tokens.fill(1, input_ids=self.tokenizer.empty_id, segment_ids=1)
        tokens.fill(1, column_ids=cells % width + 1, row_ids=cells // width + 1)
        answers = example.answer.coordinates if example.answer else ()
        tokens.fill(1, label_ids=np.isin(cells, [row * width + column for row, column in answers]))
        features = table.features(example.question)[: 1 + len(cells)]
        return tokens.encoding(example.example_id, cell_features=features)
