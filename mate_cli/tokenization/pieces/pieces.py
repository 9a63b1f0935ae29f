"""Word pieces of the cells of a table, each distinct text split once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mate_cli.tables.text import is_empty
from mate_cli.tokenization.vocabulary import Vocabulary

Parts = tuple[str, ...]
"""A cell's text in parts; the text is the parts joined by spaces. Parts shared by many cells are split once."""


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
        """The ids of a text whose parts were added, int32; [EMPTY] for a text without words."""
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
        """Those of some columns of a table that has `width` of them; other cells begin and end at the same piece."""
        return self._of(np.isin(self.cells % width, list(columns)))

    def of_rows(self, rows: Collection[int], width: int) -> TablePieces:
        """Those of some body rows, from 0, of a table with `width` columns, and of the header."""
        return self._of(np.isin(self.cells // width, [0, *(row + 1 for row in rows)]))

    def first_of_cells(self, lengths: np.ndarray) -> TablePieces:
        """The first so many pieces of each cell, [cells]; of which none is left, it begins where the next does."""
        places = np.arange(len(self.ids)) - np.repeat(self.offsets, np.diff(self.offsets, append=len(self.ids)))
        return self._of(places < lengths[self.cells])

    def _of(self, kept: np.ndarray) -> TablePieces:
        cells = self.cells[kept]
        offsets = np.searchsorted(cells, np.arange(len(self.offsets)))
        return TablePieces(self.ids[kept], cells, offsets, self.word_starts[kept])
