"""Word pieces of the cells of a table, and of what is said of it, and facts worked out once for all its questions."""

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
    """Remembers the pieces of texts.

    With more texts than it has room for, the next call of `add` forgets those before it.
    """

    def __init__(self, vocabulary: Vocabulary, capacity: int = 100_000) -> None:
        self.vocabulary, self.capacity = vocabulary, capacity
        self._empty = np.array([vocabulary.empty_id], dtype=np.int32)
        self._pieces: dict[str, np.ndarray] = {}

    def add(self, texts: Iterable[str]) -> None:
        """Split the texts that are not known yet, all at once; these are known until the next call."""
        if len(self._pieces) > self.capacity:
            self._pieces.clear()
        new = [text for text in dict.fromkeys(texts) if text not in self._pieces]
        self._pieces.update(zip(new, self.vocabulary.pieces(new), strict=True))

    def __getitem__(self, parts: Parts) -> np.ndarray:
        """Return the ids of a text whose parts were added, int32; [EMPTY] for a text without words."""
        if is_empty(parts[0] if len(parts) == 1 else " ".join(parts)):
            return self._empty
        ids = self._pieces[parts[0]] if len(parts) == 1 else np.concatenate([self._pieces[part] for part in parts])
        return ids if len(ids) else self._empty


@dataclass(frozen=True, slots=True)
class TablePieces:
    """The pieces of a table's cells in reading order, the header row first; P of them.

    Args:
        ids: int32 [P].
        cells: the cell of each piece, counted in reading order, [P].
        offsets: index of each cell's first piece.
        word_starts: where in its cell the word of each piece begins, [P].
    """

    ids: np.ndarray
    cells: np.ndarray
    offsets: np.ndarray
    word_starts: np.ndarray

    @classmethod
    def of(cls, cells: Sequence[np.ndarray], is_continuation: np.ndarray) -> TablePieces:
        """Lay out the pieces of cells (none of them empty)."""
        lengths = np.fromiter(map(len, cells), dtype=np.int64, count=len(cells))
        ids = np.concatenate(cells)
        offsets = lengths.cumsum() - lengths
        places = np.arange(len(ids))
        begins = ~is_continuation[ids]
        begins[offsets] = True
        first = np.maximum.accumulate(np.where(begins, places, 0))
        return cls(ids, np.repeat(np.arange(len(cells)), lengths), offsets, first - np.repeat(offsets, lengths))

    def of_columns(self, columns: Collection[int], width: int) -> TablePieces:
        """Take some columns of a table that has `width` of them; other cells begin and end at the same piece."""
        return self._of(np.isin(self.cells % width, list(columns)))

    def of_rows(self, rows: Collection[int], width: int) -> TablePieces:
        """Take some body rows, from 0, of a table with `width` columns, and the header."""
        return self._of(np.isin(self.cells // width, [0, *(row + 1 for row in rows)]))

    def first_of_cells(self, lengths: np.ndarray) -> TablePieces:
        """Take the first so many pieces of each cell, [cells]; one with none left begins where the next does."""
        places = np.arange(len(self.ids)) - np.repeat(self.offsets, np.diff(self.offsets, append=len(self.ids)))
        return self._of(places < lengths[self.cells])

    def _of(self, mask: np.ndarray) -> TablePieces:
        cells = self.cells[mask]
        offsets = np.searchsorted(cells, np.arange(len(self.offsets)))
        return TablePieces(self.ids[mask], cells, offsets, self.word_starts[mask])


LONG_TEXT = 2000
"""Characters; of longer texts only about as many are split into pieces for one example."""


class SplitTexts:
    """Texts that are split into pieces when they are asked for."""

    def __init__(self, texts: Sequence[str], cache: PieceCache) -> None:
        self._texts, self._cache = texts, cache
        self._pieces: dict[int, np.ndarray] = {}
        self.characters = sum(map(len, texts))

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, place: int) -> np.ndarray:
        """Return the pieces of the text at a place, int32; [EMPTY] for a text without words."""
        if place not in self._pieces:
            self._cache.add([self._texts[place]])
            self._pieces[place] = self._cache[self._texts[place],]
        return self._pieces[place]

    def rotate_to(self, order: Sequence[int], character: int) -> list[int]:
        """Take texts in order from the one that holds a character on, going round, until they are long enough.

        Characters are counted through all of them.
        """
        sizes = [len(self._texts[place]) for place in order]
        first = int(np.searchsorted(np.cumsum(sizes), character, side="right"))
        places, length = [], 0
        for place in (*order[first:], *order[:first]):
            places.append(place)
            length += len(self._texts[place])
            if length >= LONG_TEXT:
                break
        return places


@dataclass(frozen=True, slots=True)
class TableInPieces:
    """Texts and table as word pieces; of the table only cells that some corner can hold. P pieces.

    Args:
        texts: what is said of the table.
        ids: of the table's pieces, int32 [P].
        rows: of each piece, 0 being the header.
        columns: of each piece, from 0.
        word_starts: where in its cell the word of each piece begins.
        ranks: rank and inverse rank of each piece's cell, int32 [2, P].
        costs: see `cost`, by the number of pieces.
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
        """Rows that have pieces, the header among them."""
        return int(self.rows.max()) + 1 if len(self.rows) else 0

    @property
    def width(self) -> int:
        """Columns that have pieces."""
        return int(self.columns.max()) + 1 if len(self.columns) else 0

    def cost(self, columns: int, rows: int, pieces: int) -> int:
        """Count the pieces in the first columns and body rows of words that begin before a piece."""
        if pieces not in self.costs:
            height, width = self.height, self.width
            cells = (self.rows * width + self.columns)[self.word_starts < pieces]
            counts = np.bincount(cells, minlength=height * width).reshape(height, width)
            self.costs[pieces] = counts.cumsum(0).cumsum(1).astype(np.int32)
        costs = self.costs[pieces]
        return int(costs[min(rows, len(costs) - 1), columns - 1])

    @property
    def size(self) -> int:
        """Number of values that are kept, or will be before long."""
        return self.texts.characters // 2 + 10 * len(self.ids)


Result = TypeVar("Result")
_LARGEST_RANK = TOKEN_TYPES["column_ranks"] - 1


class TableFacts:
    """A table as a list of cells in reading order: cell (row + 1) * width + column, the header being row 0.

    Args:
        table: with at least one column.
        max_rows: body rows beyond these are left out, but count for ranks.
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
        """Return all texts that are split into pieces, whatever the question."""
        for parts in self.parts:
            yield from parts

    def changes(self, additions: Mapping[str, Parts]) -> dict[int, Parts]:
        """Return the expanded text of each cell that has a link with something to add."""
        if not additions:
            return {}
        return {
            index: expand_cell(cell, additions)
            for index, cell in self._linking
            if not additions.keys().isdisjoint(cell.links)
        }

    def pieces(self, cache: PieceCache, changes: Mapping[int, Parts]) -> TablePieces:
        """Return the word pieces of the table with some cells changed; all texts must be in the cache."""
        self._arrays = self._arrays or [cache[parts] for parts in self.parts]
        if changes:
            arrays = self._arrays.copy()
            for index, parts in changes.items():
                arrays[index] = cache[parts]
            return TablePieces.of(arrays, cache.vocabulary.is_continuation)
        if self._unchanged is None:
            self._unchanged = TablePieces.of(self._arrays, cache.vocabulary.is_continuation)
        return self._unchanged

    @cached_property
    def numbers(self) -> dict[int, dict[int, Value]]:
        """The numeric columns: value by row, by column. All rows of the table count."""
        columns = ((column, self._read_column(column)) for column in range(self.width))
        return {column: values for column, values in columns if values}

    def _read_column(self, column: int) -> dict[int, Value]:
        """Return the numbers that people wrote, where the column has enough of them, else what TAPAS's rules read."""
        texts = [row[column].text for row in self.table.rows]
        if self.table.formats:
            numbers = map(self.table.formats[column].read_number, texts)
            values: dict[int, Value] = {row: number for row, number in enumerate(numbers) if number is not None}
            if values and len(values) >= CONSOLIDATION_FRACTION * len(texts):
                return values
        return column_values(texts)

    @cached_property
    def ranks(self) -> np.ndarray:
        """Rank and inverse rank of every cell, int32 [2, cells]; ranks above 255 become 255."""
        ranks = np.zeros((2, len(self.parts)), dtype=np.int32)
        for cell, pair in self._by_cell(column_ranks):
            ranks[:, cell] = pair
        return np.minimum(ranks, _LARGEST_RANK)

    @cached_property
    def values(self) -> np.ndarray:
        """The number that each cell is read as, float32 [cells]; NaN for others, dates among them."""
        values = np.full(len(self.parts), np.nan, dtype=np.float32)
        for cell, value in self._by_cell(lambda values: values):
            if isinstance(value, float) and np.isfinite(value):
                values[cell] = value
        return values

    def _by_cell(self, compute: Callable[[dict[int, Value]], Mapping[int, Result]]) -> Iterator[tuple[int, Result]]:
        """Yield the cells of the numeric columns, as far as they are read, with what is computed of each column."""
        for column, values in self.numbers.items():
            for row, result in compute(values).items():
                if row < len(self.rows):
                    yield (row + 1) * self.width + column, result

    @cached_property
    def stems(self) -> TableStems:
        """The stems of the words of each cell, row and column."""
        return TableStems(self.table)

    def relations(self, question: str) -> np.ndarray | None:
        """Compare the numbers of a question with every cell, int32 [cells]; None when it has no numbers."""
        asked = numeric_values(question)
        if not asked or not self.numbers:
            return None
        bits = np.zeros(len(self.parts), dtype=np.int32)
        for cell, relation in self._by_cell(lambda values: relations(asked, _as_float32(values))):
            bits[cell] = relation
        return bits


def _as_float32(values: Mapping[int, Value]) -> dict[int, Value]:
    return {row: as_float32(value) if isinstance(value, float) else value for row, value in values.items()}
