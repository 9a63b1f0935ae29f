"""Serializer for masked language modelling: windows of text and table, masked tokens.

Source: google-research/tapas, `utils/tf_example_utils.py`, `ToPretrainingTensorflowExample`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tokenization.layout import TableEncoding, TokenArrays
from mate_cli.tokenization.serializers.serializer import MAX_LINES, EncodingFailure, Label, Serializer
from mate_cli.tokenization.table_pieces import LONG_TEXT, PieceCache, SplitTexts, TableFacts, TableInPieces, TablePieces

MAX_CACHED_VALUES = 50_000_000
"""Maximum number of values of tokenized tables (about four bytes each) in the cache of a process. Later epochs do not
tokenize cached tables again."""
BLOCK = 256
"""Number of random numbers sampled in one call, which is ten times faster than single calls."""


class GeneratorDraws:
    """Random numbers of a NumPy generator, with the interface of `random.Random`."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._block: list[float] = []

    def random(self) -> float:
        """Return a random number in [0, 1)."""
        if not self._block:
            self._block = self._generator.random(BLOCK).tolist()
        return self._block.pop()

    def randint(self, low: int, high: int) -> int:
        """Return a random integer from `low` to `high`, both inclusive."""
        return low + int(self.random() * (high - low + 1))

    def shuffle(self, items: list[Any]) -> None:
        """Shuffle a list in place."""
        items[:] = [items[index] for index in self._generator.permutation(len(items)).tolist()]


Draws = Random | GeneratorDraws
"""Source of randomness. The reference implementation (google-research/tapas) uses Python's `Random`."""


class TableWindow(NamedTuple):
    """Size of a window of a table that contains its first columns and rows, and the first tokens of their cells.

    Args:
        columns: number of columns.
        rows: number of body rows.
        tokens: exclusive upper bound for the token index in its cell at which a word may start.
    """

    columns: int
    rows: int
    tokens: int


@dataclass(eq=False)
class MaskingSerializer(Serializer):
    """Encodes a random window of a text and a table for masked language modeling.

    In `label_ids` masked tokens have their original id, other tokens 0.

    The padding token (id 0) is never masked. The text is a window of all texts in random order, or around a random
    position of very long texts. A table with less text than `min_text` uses all of its text (the reference
    implementation skips it). Whole words of texts and whole cells of tables are masked: each token of a masked unit
    becomes [MASK] (80 %), stays the same (10 %) or becomes a random token (10 %).

    Args:
        share: share of the tokens to mask.
        max_predictions: maximum number of masked tokens. None means `share` of `max_tokens`: 20 for 128 tokens.
        min_text: minimum number of tokens of the text window.
        max_text: maximum number of tokens of the text window. The last word is completed.
        whole_cells: whether to mask whole cells of tables. Otherwise whole words are masked.
    """

    share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    max_predictions: Annotated[int, Field(gt=0)] | None = None
    min_text: Annotated[int, Field(ge=0)] = 8
    max_text: Annotated[int, Field(gt=0)] = 32
    whole_cells: bool = True

    def __post_init__(self) -> None:
        self._cache = PieceCache(self.tokenizer, capacity=20_000)
        self._tables: dict[str, TableInPieces] = {}
        self._remembered = 0

    @classmethod
    def label_kind(cls, options: Mapping[str, Any]) -> Label:
        """Return "pieces", the name of the labels of masked language modeling, which the task must expect."""
        return "pieces"

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode and mask each example. The result has the order of the examples.

        The masks depend only on the id of the example. Each line of a question is a text.
        """
        encodings: list[TableEncoding | EncodingFailure] = []
        for example in examples:
            tokenized = self.tokenize_table(example.table, example.question.splitlines())
            seed = list(example.example_id.encode())
            encodings.append(self.mask(tokenized, GeneratorDraws(np.random.default_rng(seed)), example.example_id))
        return encodings

    def split_table(self, name: str, load: Callable[[], tuple[Table, Sequence[str]]]) -> TableInPieces:
        """Return the tokens of a table and its texts from the cache, or read and tokenize them.

        The cache is emptied if it exceeds `MAX_CACHED_VALUES`.

        Args:
            name: key of the table in the cache.
            load: function that reads the table and its texts if they are not cached.
        """
        if name not in self._tables:
            tokenized = self.tokenize_table(*load())
            if self._remembered > MAX_CACHED_VALUES:
                self._tables.clear()
                self._remembered = 0
            self._remembered += tokenized.size
            self._tables[name] = tokenized
        return self._tables[name]

    def tokenize_table(self, table: Table, texts: Sequence[str]) -> TableInPieces:
        """Tokenize a table and its texts to a `TableInPieces`, from which windows are sampled.

        A cell is omitted if it does not fit even when all cells to its left and above have a single token.

        Args:
            table: table to tokenize.
            texts: texts about the table.
        """
        table_facts = TableFacts(table, min(self.max_tokens, MAX_LINES))
        cells = np.arange(len(table_facts.parts))
        rows, columns = np.divmod(cells, max(1, table_facts.width))
        reachable = ((rows + 1) * (columns + 1) <= self.max_tokens) & (columns < MAX_LINES)
        cells, rows, columns = cells[reachable], rows[reachable], columns[reachable]
        cell_parts = [table_facts.parts[cell] for cell in cells.tolist()]
        split = SplitTexts(texts, self._cache)
        if not cell_parts:
            empty = np.zeros(0, np.int32)
            return TableInPieces(split, empty, empty, empty, empty, np.zeros((2, 0), np.int32))
        self._cache.add(part for parts in cell_parts for part in parts)
        cell_tokens = TablePieces.join([self._cache[parts] for parts in cell_parts], self.tokenizer.is_continuation)
        token_cells = cell_tokens.cells
        rows, columns, starts = (
            array.astype(np.int32) for array in (rows[token_cells], columns[token_cells], cell_tokens.word_starts)
        )
        return TableInPieces(split, cell_tokens.ids, rows, columns, starts, table_facts.ranks[:, cells[token_cells]])

    def mask(self, table: TableInPieces, draws: Draws, example_id: str = "") -> TableEncoding:
        """Sample a window of the text and of the table, and mask some of its tokens.

        Args:
            table: tokens of a table and its texts.
            draws: source of randomness.
            example_id: id of the new example.
        """
        text = self.text_window(table.texts, draws)
        ids, columns = table.ids, table.columns
        if not len(ids):
            text = text[: self.max_tokens - 2]
        window = self.sample_window(table, self.max_tokens - len(text) - 2, draws)
        keep = (columns < window.columns) & (table.rows <= window.rows) & (table.word_starts < window.tokens)
        start = len(text) + 2
        tokens, ranks = TokenArrays(start + int(keep.sum())), table.ranks[:, keep]
        tokens.fill(end=1, input_ids=self.tokenizer.cls_id)
        tokens.fill(1, start - 1, input_ids=text)
        tokens.fill(start - 1, start, input_ids=self.tokenizer.sep_id)
        tokens.fill(start, input_ids=ids[keep], segment_ids=1, column_ids=columns[keep] + 1, row_ids=table.rows[keep])
        tokens.fill(start, column_ranks=ranks[0], inverse_column_ranks=ranks[1])
        self._mask_units(tokens, len(text), draws)
        return tokens.encoding(example_id)

    def text_window(self, texts: SplitTexts, draws: Draws) -> np.ndarray:
        """Join all texts of a table in random order, and return the token ids of a random window, int32.

        The window has `min_text` to `max_text` tokens, and contains whole words.
        """
        order = list(range(len(texts)))
        draws.shuffle(order)
        if texts.characters > LONG_TEXT:
            order = texts.rotate_to(order, draws.randint(0, texts.characters - 1))
        ids = np.concatenate([texts[index] for index in order]) if order else np.zeros(0, np.int32)
        if len(ids) < max(1, self.min_text):
            return ids
        is_continuation = self.tokenizer.is_continuation
        start = draws.randint(0, len(ids) - self.min_text)
        while start > 0 and is_continuation[ids[start]]:
            start -= 1
        end = draws.randint(start + self.min_text, min(len(ids), start + self.max_text))
        while end < len(ids) and is_continuation[ids[end]]:
            end += 1
        return ids[start:end]

    def sample_window(self, table: TableInPieces, budget: int, draws: Draws) -> TableWindow:
        """Sample a window of a table that fits into a token budget.

        The window starts with one token of one cell. Columns, rows and tokens per cell grow by one in turn, each with
        probability 0.5, until the next step exceeds the budget.

        Args:
            table: tokens of a table.
            budget: maximum number of tokens.
            draws: source of randomness.
        """
        if not len(table.ids):
            return TableWindow(0, 0, 0)
        limits = TableWindow(table.width, min(table.height, MAX_LINES), self._longest(table))
        window = TableWindow(1, 1, 1)
        while window != limits:
            for axis in range(3):
                if window[axis] < limits[axis] and draws.random() < 0.5:
                    larger = TableWindow(*(size + (index == axis) for index, size in enumerate(window)))
                    if table.cost(*larger) > budget:
                        return window
                    window = larger
        return window

    def _longest(self, table: TableInPieces) -> int:
        """Return the number of tokens of the longest cell of a table, at most `max_tokens`."""
        indices = np.arange(len(table.ids))
        cells = table.rows * table.width + table.columns
        first = np.searchsorted(cells, cells)
        return min(int((indices - first).max()) + 1, self.max_tokens)

    def _mask_units(self, tokens: TokenArrays, text: int, draws: Draws) -> None:
        ids, columns, labels = (tokens[name] for name in ("input_ids", "column_ids", "label_ids"))
        units = self._units(ids, columns, text)
        draws.shuffle(units)
        budget = min(self.most_predictions, max(1, round(len(ids) * self.share)))
        mask, size = self.tokenizer.mask_id, self.vocab_size
        for start, end in units:
            if budget <= 0:
                break
            # A smaller unit may still fit.
            if end - start > budget:
                continue
            budget -= end - start
            labels[start:end] = ids[start:end]
            for index in range(start, end):
                if draws.random() < 0.8:
                    ids[index] = mask
                elif draws.random() >= 0.5:
                    ids[index] = draws.randint(0, size - 1)

    @property
    def most_predictions(self) -> int:
        """Maximum number of masked tokens of an example, which the model predicts."""
        return self.max_predictions or math.ceil(self.share * self.max_tokens)

    def _units(self, ids: np.ndarray, columns: np.ndarray, text: int) -> list[tuple[int, int]]:
        """Return (start, end) of the token spans that are masked as a whole: words of the text and cells of the table.

        [CLS] and [SEP] are in no span. A cell ends where the column changes, so all cells of a table with a single
        column form one span.
        """
        continues = self.tokenizer.is_continuation[ids]
        if self.whole_cells:
            continues[1:] |= (columns[1:] > 0) & (columns[1:] == columns[:-1])
        continues[[0, 1, text + 1]] = False
        starts = np.flatnonzero(~continues)
        unit_ends = [*starts[1:].tolist(), len(ids)]
        special = (0, text + 1)
        return [unit for unit in zip(starts.tolist(), unit_ends, strict=True) if unit[0] not in special]
