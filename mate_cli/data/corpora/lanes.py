"""Files of a corpus as endless sequences of tables, of which any place can be found without reading what is before."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np
from datasets import Dataset as ArrowDataset

from mate_cli.data.corpora.corpus import CorpusTable
from mate_cli.data.corpora.shards import Shard, from_row

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 256
"""Tables that stand together in a file and are mixed: what is held in memory of each lane."""


@dataclass(frozen=True)
class StreamedTable:
    """One table of a stream: how often it was seen before, the number of its file, its row there, and what reads it."""

    epoch: int
    shard: int
    row: int
    read: Callable[[], CorpusTable]


class Lane:
    """Some files of a corpus as an endless sequence: in each epoch all tables once, in another order.

    Files come in random order, and within each file blocks of tables one after another, each mixed. So a place in the
    sequence says which block holds it, and nothing before it has to be read.
    """

    def __init__(self, shards: Sequence[tuple[int, Shard]], seed: Sequence[int]) -> None:
        self.shards, self.seed = shards, seed
        self.size = sum(shard.tables for _, shard in shards)
        self._epoch: tuple[int, list[int]] | None = None
        self._mixed: tuple[tuple[int, int, int], np.ndarray] | None = None
        self._block: tuple[tuple[int, int], pa.Table] | None = None
        self._ahead: tuple[tuple[int, int], Generator[pa.Table]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs; it opens files by itself."""
        return {**self.__dict__, "_block": None, "_ahead": None}

    def rows(self, begin: int, end: int) -> Iterator[StreamedTable]:
        """The tables at places begin..end of the sequence; nothing is read before someone asks for it."""
        for place in range(begin, end):
            epoch, left = divmod(place, self.size)
            for which in self._order(epoch):
                number, shard = self.shards[which]
                if left < shard.tables:
                    break
                left -= shard.tables
            block, within = divmod(left, BLOCK)
            row = int(self._mix(epoch, which, block)[within])
            yield StreamedTable(epoch, number, block * BLOCK + row, partial(self._table, which, block, row))

    def _order(self, epoch: int) -> list[int]:
        """The files as they come in an epoch."""
        if self._epoch is None or self._epoch[0] != epoch:
            order = np.random.default_rng((*self.seed, epoch)).permutation(len(self.shards))
            self._epoch = epoch, order.tolist()
        return self._epoch[1]

    def _mix(self, epoch: int, which: int, block: int) -> np.ndarray:
        """The tables of a block of a file as they come in an epoch."""
        key = (epoch, which, block)
        if self._mixed is None or self._mixed[0] != key:
            count = min(BLOCK, self.shards[which][1].tables - block * BLOCK)
            self._mixed = key, np.random.default_rng((*self.seed, *key)).permutation(count)
        return self._mixed[1]

    def _table(self, which: int, block: int, row: int) -> CorpusTable:
        if self._block is None or self._block[0] != (which, block):
            self._block = (which, block), self._read(which, block)
        return from_row(self._block[1].slice(row, 1).to_pylist()[0])

    def _read(self, which: int, block: int) -> pa.Table:
        if self._ahead is None or self._ahead[0] != (which, block):
            blocks = _blocks(self.shards[which][1], block * BLOCK)
            finalize(self, blocks.close)  # else the open file is noticed when Python is half gone
        else:
            blocks = self._ahead[1]
        self._ahead = (which, block + 1), blocks
        return next(blocks)


def _blocks(shard: Shard, begin: int) -> Generator[pa.Table]:
    """The blocks of a file from a place on; those held out before them are passed over."""
    streamed = ArrowDataset.from_parquet(str(shard.path), streaming=True).with_format("arrow")
    yield from streamed.skip(shard.held_out + begin).iter(BLOCK)
