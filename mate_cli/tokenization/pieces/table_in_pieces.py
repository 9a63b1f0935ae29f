"""A table and what is said of it as word pieces, worked out once and remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mate_cli.tokenization.pieces.pieces import PieceCache

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
        """The pieces of the text at a place, int32; [EMPTY] for a text without words."""
        if place not in self._pieces:
            self._cache.add([self._texts[place]])
            self._pieces[place] = self._cache[self._texts[place],]
        return self._pieces[place]

    def beginning_at(self, order: Sequence[int], character: int) -> list[int]:
        """Of texts in an order, those from the one that holds a character on, going round, until they are long enough.

        Characters are counted through all of them.
        """
        sizes = [len(self._texts[place]) for place in order]
        first = int(np.searchsorted(np.cumsum(sizes), character, side="right"))
        kept, length = [], 0
        for place in (*order[first:], *order[:first]):
            kept.append(place)
            length += len(self._texts[place])
            if length >= LONG_TEXT:
                break
        return kept


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
        """How many pieces there are in the first columns and body rows of words that begin before a piece."""
        if pieces not in self.costs:
            cells = (self.rows * self.width + self.columns)[self.word_starts < pieces]
            counts = np.bincount(cells, minlength=self.height * self.width).reshape(self.height, self.width)
            self.costs[pieces] = counts.cumsum(0).cumsum(1).astype(np.int32)
        return int(self.costs[pieces][min(rows, self.height - 1), columns - 1])

    @property
    def size(self) -> int:
        """How many numbers are kept, or will be before long."""
        return self.texts.characters // 2 + 10 * len(self.ids)
