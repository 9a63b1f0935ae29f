"""Serializer of multiple-choice questions, which encodes the text and the question with each option separately.

Source: Yu et al. 2020, "ReClor", section 4; Xu et al. 2021, appendix D.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableEncoding, TokenArrays
from mate_cli.tokenization.serializers.serializer import EncodingFailure, Label, Serializer
from mate_cli.tokenization.table_pieces import PieceCache


@dataclass(eq=False)
class OptionSerializer(Serializer):
    """[CLS] context [SEP] question option [SEP], for every option.

    Row ids number the options from 1. The context has segment id 0, the rest has segment id 1. If an input is too long,
    the end of the context is truncated.

    Args:
        max_tokens: maximum number of tokens of all options together.
        option_tokens: maximum number of tokens per input.
        reset_positions: positions restart in every input; must be true.
    """

    max_tokens: Annotated[int, Field(ge=8)] = 1024
    reset_positions: bool = True
    option_tokens: Annotated[int, Field(ge=8)] = 256

    def __post_init__(self) -> None:
        self._cache = PieceCache(self.tokenizer)

    @classmethod
    def label_kind(cls, options: Mapping[str, Any]) -> Label:
        """Return "options", the name of token labels that mark the correct option."""
        return "options"

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode each example as `TableEncoding`, or return an `EncodingFailure` with the reason, in the same order."""
        options = [text for example in examples for text in example.options]
        self._cache.add([*options, *(text for example in examples for text in (_context(example), example.question))])
        return [self._encode(example) for example in examples]

    def _encode(self, example: TableExample) -> TableEncoding | EncodingFailure:
        if not example.options:
            return EncodingFailure(example.example_id, "has no options to choose from")
        tokens = min(self.option_tokens, self.max_tokens // len(example.options))
        laid_out = [self._lay_out(example, text, tokens) for text in example.options]
        if None in [truncated for _, truncated in laid_out]:
            return EncodingFailure(example.example_id, f"the question with an option has more than {tokens} tokens")
        ids, segments = np.concatenate([array for array, _ in laid_out], axis=1)
        owner = np.repeat(np.arange(len(laid_out)), [array.shape[1] for array, _ in laid_out])
        arrays = TokenArrays(len(ids))
        arrays.fill(input_ids=ids, segment_ids=segments, column_ids=1, row_ids=owner + 1)
        if example.answer is not None and example.answer.label is not None:
            arrays.fill(label_ids=(owner == example.answer.label).astype(np.int32))
        truncated = np.array([any(truncated for _, truncated in laid_out), 0, 0, 0], np.int32)
        return arrays.encoding(example.example_id, cut=truncated)

    def _lay_out(self, example: TableExample, option: str, tokens: int) -> tuple[np.ndarray, int | None]:
        """Encode a question with one of its options, and truncate the context to at most `tokens` tokens in total.

        Returns:
            Token ids and segment ids, Int32 [2, tokens], and the number of truncated tokens. The number is None if the
            input is too long even without context.
        """
        prefix, separator, suffix = self.tokenizer.pair_marks
        context, question_option = self._cache[_context(example),], self._cache[example.question, option]
        context_length = tokens - len(prefix) - len(separator) - len(question_option) - len(suffix)
        ids = np.concatenate([prefix, context[: max(0, context_length)], separator, question_option, suffix])
        segments = np.zeros_like(ids)
        segments[len(ids) - len(question_option) - len(suffix) :] = 1
        truncated = None if context_length < 0 else max(0, len(context) - context_length)
        return np.stack([ids, segments]).astype(np.int32), truncated


def _context(example: TableExample) -> str:
    """Join the texts of all cells of a table, usually a single cell, by spaces."""
    return " ".join(cell.text for _, _, cell in example.table.cells())
