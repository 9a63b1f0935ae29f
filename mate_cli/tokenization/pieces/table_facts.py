"""Facts that are worked out once per table and serve all its questions: texts, numbers, ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

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
from mate_cli.tokenization.expansion import expand_cell
from mate_cli.tokenization.fitting.exact_match_pruning import TableStems
from mate_cli.tokenization.layout import TOKEN_TYPES
from mate_cli.tokenization.pieces.pieces import Parts, PieceCache, TablePieces

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
        for column, values in self.numbers.items():
            for row, pair in column_ranks(values).items():
                if row < len(self.rows):
                    ranks[:, (row + 1) * self.width + column] = pair
        return np.minimum(ranks, _LARGEST_RANK)

    @cached_property
    def values(self) -> np.ndarray:
        """The number that each cell is read as, float32 [cells]; NaN for others, dates among them."""
        values = np.full(len(self.parts), np.nan, dtype=np.float32)
        for column, known in self.numbers.items():
            for row, value in known.items():
                if row < len(self.rows) and isinstance(value, float) and np.isfinite(value):
                    values[(row + 1) * self.width + column] = value
        return values

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
        for column, values in self.numbers.items():
            rounded = {row: as_float32(value) if isinstance(value, float) else value for row, value in values.items()}
            for row, relation in relations(asked, rounded).items():
                if row < len(self.rows):
                    bits[(row + 1) * self.width + column] = relation
        return bits
