"""Tokens (word pieces) of tables and texts, and the values that are computed once for all questions of a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np

from mate_cli.tables.numbers import (
    CONSOLIDATION_FRACTION,
    Value,
    as_float32,
    column_ranks,
    column_values,
    numeric_values,
    relations,
)
from mate_cli.tables.table import Table
from mate_cli.tables.text import is_empty
from mate_cli.tokenization.expansion import Parts, expand_cell
from mate_cli.tokenization.fitting.truncation import TableStems
from mate_cli.tokenization.layout import TOKEN_TYPES
from mate_cli.tokenization.vocabulary import Vocabulary


class PieceCache:
    """Cache of the token ids of texts, so that a text that occurs in many examples is tokenized once.

    Args:
        vocabulary: vocabulary that splits the texts.
        capacity: number of texts above which the next call of `add` empties the cache.
    """

    def __init__(self, vocabulary: Vocabulary, capacity: int = 100_000) -> None:
        self.vocabulary, self.capacity = vocabulary, capacity
        self._empty = np.array([vocabulary.empty_id], dtype=np.int32)
        self._ids: dict[str, np.ndarray] = {}

    def add(self, texts: Iterable[str]) -> None:
        """Tokenize all texts that are not cached, in one batch.

        The texts stay cached at least until the next call.
        """
        if len(self._ids) > self.capacity:
            self._ids.clear()
        missing_texts = [text for text in dict.fromkeys(texts) if text not in self._ids]
        self._ids.update(zip(missing_texts, self.vocabulary.pieces(missing_texts), strict=True))

    def __getitem__(self, parts: Parts) -> np.ndarray:
        """Return the token ids of a text, int32. All of its strings must have been passed to `add` before.

        A text without words has the token [EMPTY].
        """
        if is_empty(parts[0] if len(parts) == 1 else " ".join(parts)):
            return self._empty
        ids = self._ids[parts[0]] if len(parts) == 1 else np.concatenate([self._ids[part] for part in parts])
        return ids if len(ids) else self._empty


@dataclass(frozen=True, slots=True)
class TablePieces:
    """The P tokens of a table's cells in reading order, with the header row first.

    Args:
        ids: token ids, int32 [P].
        cells: cell index of each token in reading order, [P].
        offsets: index of the first token of each cell.
        word_starts: index in its cell of the first token of each token's word, [P].
    """

    ids: np.ndarray
    cells: np.ndarray
    offsets: np.ndarray
    word_starts: np.ndarray

    @classmethod
    def join(cls, cells: Sequence[np.ndarray], is_continuation: np.ndarray) -> TablePieces:
        """Concatenate the tokens of the cells of a table to one token sequence.

        Args:
            cells: token ids of each cell, at least one per cell.
            is_continuation: whether a token continues a word, by token id.
        """
        lengths = np.fromiter(map(len, cells), dtype=np.int64, count=len(cells))
        ids = np.concatenate(cells)
        offsets = lengths.cumsum() - lengths
        indices = np.arange(len(ids))
        starts_word = ~is_continuation[ids]
        starts_word[offsets] = True
        first = np.maximum.accumulate(np.where(starts_word, indices, 0))
        return cls(ids, np.repeat(np.arange(len(cells)), lengths), offsets, first - np.repeat(offsets, lengths))

    def of_columns(self, columns: Collection[int], width: int) -> TablePieces:
        """Return the tokens of selected columns of a table with `width` columns.

        The cells of other columns stay in the table without tokens, so cell indices do not change.
        """
        return self._select(np.isin(self.cells % width, list(columns)))

    def of_rows(self, rows: Collection[int], width: int) -> TablePieces:
        """Return the tokens of the header and of the selected body rows.

        The table has `width` columns. Row indices start at 0. Cells of other rows stay in the table without tokens, so
        cell indices do not change.
        """
        return self._select(np.isin(self.cells // width, [0, *(row + 1 for row in rows)]))

    def first_of_cells(self, lengths: np.ndarray) -> TablePieces:
        """Truncate each table cell to a number of tokens: `lengths[i]` for cell i.

        A cell with the length 0 loses all tokens.
        """
        cell_positions = np.arange(len(self.ids)) - np.repeat(self.offsets, np.diff(self.offsets, append=len(self.ids)))
        return self._select(cell_positions < lengths[self.cells])

    def _select(self, mask: np.ndarray) -> TablePieces:
        cells = self.cells[mask]
        offsets = np.searchsorted(cells, np.arange(len(self.offsets)))
        return TablePieces(self.ids[mask], cells, offsets, self.word_starts[mask])


LONG_TEXT = 2000
"""Number of characters of a long text. For one example only about this many characters are tokenized."""


class SplitTexts:
    """Sequence of texts as token ids, each tokenized on first access.

    Args:
        texts: texts to tokenize.
        cache: cache of token ids.
    """

    def __init__(self, texts: Sequence[str], cache: PieceCache) -> None:
        self._texts, self._cache = texts, cache
        self._ids: dict[int, np.ndarray] = {}
        self.characters = sum(map(len, texts))

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> np.ndarray:
        """Return the token ids of the text at an index, int32. A text without words has the token [EMPTY]."""
        if index not in self._ids:
            self._cache.add([self._texts[index]])
            self._ids[index] = self._cache[self._texts[index],]
        return self._ids[index]

    def rotate_to(self, order: Sequence[int], character: int) -> list[int]:
        """Select about `LONG_TEXT` characters of consecutive texts from a random start.

        The selection continues with the first text after the last one.

        Args:
            order: indices of the texts.
            character: index of a character in the texts concatenated in this order. The result starts with the text
                that contains this character.
        """
        sizes = [len(self._texts[index]) for index in order]
        first = int(np.searchsorted(np.cumsum(sizes), character, side="right"))
        selected_indices, length = [], 0
        for index in (*order[first:], *order[:first]):
            selected_indices.append(index)
            length += len(self._texts[index])
            if length >= LONG_TEXT:
                break
        return selected_indices


@dataclass(frozen=True, slots=True)
class TableInPieces:
    """Tokens of a table and of its texts, from which masked language modeling samples windows.

    Cells that no window of the table can contain are omitted.

    Args:
        texts: texts about the table.
        ids: ids of the P tokens of the table, int32 [P].
        rows: row of each token, 0 for the header.
        columns: column of each token, from 0.
        word_starts: index in its cell of the first token of each token's word.
        ranks: rank and inverse rank of each token's cell, int32 [2, P].
        costs: cached table of `cost` for each value of its argument `pieces`.
    """

    texts: SplitTexts
    ids: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    word_starts: np.ndarray
    ranks: np.ndarray
    costs: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def height(self) -> int:
        """Number of rows with tokens, including the header."""
        return int(self.rows.max()) + 1 if len(self.rows) else 0

    @property
    def width(self) -> int:
        """Number of columns with tokens."""
        return int(self.columns.max()) + 1 if len(self.columns) else 0

    def cost(self, columns: int, rows: int, tokens: int) -> int:
        """Count the tokens in a window of the table.

        Args:
            columns: number of columns of the window.
            rows: number of body rows of the window.
            tokens: exclusive upper bound for the token index in its cell at which a counted word may start.
        """
        if tokens not in self.costs:
            height, width = self.height, self.width
            cells = (self.rows * width + self.columns)[self.word_starts < tokens]
            counts = np.bincount(cells, minlength=height * width).reshape(height, width)
            self.costs[tokens] = counts.cumsum(0).cumsum(1).astype(np.int32)
        costs = self.costs[tokens]
        return int(costs[min(rows, len(costs) - 1), columns - 1])

    @property
    def size(self) -> int:
        """Estimated number of values in memory once all texts are tokenized."""
        return self.texts.characters // 2 + 10 * len(self.ids)


Result = TypeVar("Result")
_LARGEST_RANK = TOKEN_TYPES["column_ranks"] - 1


class TableFacts:
    """The cells of a table in reading order, and the values that are computed once for all of its questions.

    Body cell (row, column) has index (row + 1) * width + column.

    Args:
        table: table with at least one column.
        max_rows: maximum number of body rows. Further rows are omitted, but count for ranks.
    """

    def __init__(self, table: Table, max_rows: int) -> None:
        self.table, self.width, self.rows = table, len(table.header), table.rows[:max_rows]
        lines = (table.header, *self.rows)
        self.parts: list[Parts] = [(cell.text,) for line in lines for cell in line]
        body = (cell for row in self.rows for cell in row)
        self._linking = [(index, cell) for index, cell in enumerate(body, self.width) if cell.links]
        self._arrays: list[np.ndarray] = []
        self._unchanged: TablePieces | None = None

    def texts(self) -> Iterator[str]:
        """Return the cell texts, which are tokenized once for all questions about the table."""
        for parts in self.parts:
            yield from parts

    def changes(self, additions: Mapping[str, Parts]) -> dict[int, Parts]:
        """Return the cell texts with linked passage text appended, keyed by cell index.

        Only cells with a link in `additions` are returned.
        """
        return {
            index: expand_cell(cell, additions)
            for index, cell in self._linking
            if not additions.keys().isdisjoint(cell.links)
        }

    def pieces(self, cache: PieceCache, changes: Mapping[int, Parts]) -> TablePieces:
        """Return the tokens of all cells of a table, with the texts of some cells replaced by `changes`.

        Args:
            cache: cache that contains all texts of the table and of `changes`.
            changes: new text of changed cells, by cell index.
        """
        self._arrays = self._arrays or [cache[parts] for parts in self.parts]
        if changes:
            arrays = self._arrays.copy()
            for index, parts in changes.items():
                arrays[index] = cache[parts]
            return TablePieces.join(arrays, cache.vocabulary.is_continuation)
        if self._unchanged is None:
            self._unchanged = TablePieces.join(self._arrays, cache.vocabulary.is_continuation)
        return self._unchanged

    @cached_property
    def numbers(self) -> dict[int, dict[int, Value]]:
        """Numbers and dates of the numeric columns, as {column: {row: value}}, from all rows of the table."""
        columns = ((column, self._read_column(column)) for column in range(self.width))
        return {column: values for column, values in columns if values}

    def _read_column(self, column: int) -> dict[int, Value]:
        """Parse the numbers or dates of a column, and return them by row.

        The number format of the column is used if it reads at least `CONSOLIDATION_FRACTION` of the cells. Otherwise
        the rules of TAPAS are used.
        """
        texts = [row[column].text for row in self.table.rows]
        if self.table.formats:
            numbers = map(self.table.formats[column].read_number, texts)
            values: dict[int, Value] = {row: number for row, number in enumerate(numbers) if number is not None}
            if values and len(values) >= CONSOLIDATION_FRACTION * len(texts):
                return values
        return column_values(texts)

    @cached_property
    def ranks(self) -> np.ndarray:
        """Rank of every cell in its column, ascending and descending, int32 [2, cells].

        Ranks are at most 255.
        """
        ranks = np.zeros((2, len(self.parts)), dtype=np.int32)
        for cell, pair in self._by_cell(column_ranks):
            ranks[:, cell] = pair
        return np.minimum(ranks, _LARGEST_RANK)

    @cached_property
    def values(self) -> np.ndarray:
        """Number of each cell, float32 [cells], or NaN for dates and for cells without a number."""
        values = np.full(len(self.parts), np.nan, dtype=np.float32)
        for cell, value in self._by_cell(lambda values: values):
            if isinstance(value, float) and np.isfinite(value):
                values[cell] = value
        return values

    def _by_cell(self, compute: Callable[[dict[int, Value]], Mapping[int, Result]]) -> Iterator[tuple[int, Result]]:
        """Apply a function to the values of each numeric column, and yield results by cell.

        A result is (cell index, result). Rows after `max_rows` are skipped.
        """
        for column, values in self.numbers.items():
            for row, result in compute(values).items():
                if row < len(self.rows):
                    yield (row + 1) * self.width + column, result

    @cached_property
    def stems(self) -> TableStems:
        """Porter stems of the words of each cell, row and column, for truncation by similarity to the question."""
        return TableStems(self.table)

    def relations(self, question: str) -> np.ndarray | None:
        """Compare the numbers in a question with every cell, such as "greater", int32 [cells].

        The result has the bits of `tables.numbers.relations`. Return None if the question or the table has no numbers.
        """
        question_numbers = numeric_values(question)
        if not question_numbers or not self.numbers:
            return None
        bits = np.zeros(len(self.parts), dtype=np.int32)
        for cell, relation in self._by_cell(lambda values: relations(question_numbers, _as_float32(values))):
            bits[cell] = relation
        return bits


def _as_float32(values: Mapping[int, Value]) -> dict[int, Value]:
    return {row: as_float32(value) if isinstance(value, float) else value for row, value in values.items()}
