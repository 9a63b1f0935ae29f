"""Training examples that are made while training, from a corpus that is read as it goes.

The tables of an optimizer step, and how its examples are made, depend on the seed, the step and `trainer.batch_size`
alone. Micro-batches, loading processes, ranks and the step at which a run was resumed do not matter.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np
from torch.utils.data import DataLoader, Dataset, Sampler

from mate_cli.data.corpora.shards import CorpusTable, Shard, ShardSequence, StreamedTable, deal_shards
from mate_cli.data.datasets.catalogue import TableDataset
from mate_cli.data.loading.batching import Schedule, group_size
from mate_cli.data.loading.table_data_module import LoaderOptions, TableDataModule
from mate_cli.errors import DataError
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.fitting.truncation import TRUNCATION_COUNTS
from mate_cli.tokenization.layout import TableBatch, TableEncoding
from mate_cli.tokenization.serializers.serializer import Serializer

MAX_SEQUENCES = 64
"""More are not read side by side."""
SAMPLE = 64
"""Examples whose lengths stand for all."""
KNOWN_BY = 1024
"""Examples of the beginning of a stream that stand for all of it, where new weights depend on the data."""

Masks = Literal["dynamic", "static"]
Maker = Callable[[str, Callable[[], CorpusTable], np.random.Generator], Sequence[TableEncoding]]
"""Makes the training examples of a table, none where it is good for none; all chance comes from the generator.

What was worked out of a table may be kept under its name."""


class StreamedDataset(TableDataset, ABC):
    """A dataset that is not learnt from as a whole, but from examples made of its tables; none are of split "train".

    Attributes:
        masks: whether the examples of a table differ from epoch to epoch ("dynamic").
        splits: those that are evaluated, and "train".
    """

    masks: Masks = "dynamic"
    splits: tuple[str, ...] = ("train", "dev")

    @property
    @abstractmethod
    def files(self) -> list[Shard]:
        """The files of the tables."""

    @abstractmethod
    def maker(self, serializer: Serializer) -> Maker:
        """Return the maker of examples."""

    @property
    def data_module(self) -> type[TableDataModule]:
        """Data module of the stream."""
        return StreamDataModule


class TableStream(Dataset[TableBatch]):
    """Micro-batches of examples made of a corpus, each available by its index over all ranks.

    The files are divided into lanes. Files that do not divide evenly are read by two lanes, each a part of them. An
    epoch takes `group_size` tables of each lane in turn until all are taken, in whole optimizer steps: it leaves out
    the tables of the last, incomplete step.

    Args:
        shards: files of the corpus.
        maker: makes the examples of a table.
        loading: sizes of batches and the seed.
        masks: see `StreamedDataset`.
        batch_size: tables of an optimizer step; by default a micro-batch.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        maker: Maker,
        loading: LoaderOptions,
        masks: Masks = "dynamic",
        batch_size: int | None = None,
    ) -> None:
        limit = loading.limit_train
        if limit is not None:
            share = -(-limit // len(shards))
            shards = [replace(shard, tables=min(shard.tables, share)) for shard in shards]
        numbered = [(number, shard) for number, shard in enumerate(shards) if shard.tables]
        if not numbered:
            raise DataError("this corpus has no table to train on", remedy="Add data.sources")
        dealt = deal_shards(numbered, min(MAX_SEQUENCES, len(numbered)))
        self.maker, self.loading, self.masks = maker, loading, masks
        self.batch_size = batch_size or loading.micro_batch
        self.lanes = [ShardSequence(files, (loading.seed, 2, lane)) for lane, files in enumerate(dealt)]

    failures: Mapping[str, str] = {}
    """None are told of: tables that are good for nothing are passed over as they come."""
    cuts = np.zeros((0, len(TRUNCATION_COUNTS)), np.int32)
    """Not counted: a part of each table is all that is wanted."""

    def __len__(self) -> int:
        """Count the tables of an epoch."""
        return sum(lane.size for lane in self.lanes)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of some examples."""
        return np.array([len(encoding) for encoding in self.some(SAMPLE)])

    def some(self, count: int) -> list[TableEncoding]:
        """Return the examples of the beginning of the first lane."""
        found = [
            encoding for row in self.lanes[0].rows(0, min(count, self.lanes[0].size)) for encoding in self._make(row)
        ]
        return found[:count]

    def __getitem__(self, number: int) -> TableBatch:
        """Return the micro-batch of a number, counted over all ranks.

        If its tables yield no example, it is a filler: an example of the tables after them, which has no loss.

        Raises:
            DataError: no table yields an example.
        """
        begin = number * self.loading.micro_batch
        tables = range(begin, begin + self.loading.micro_batch)
        if made := [encoding for table in tables for encoding in self._make(self._find(table))]:
            return self.loading.batch(made)
        later = (self._make(self._find(table)) for table in range(tables.stop, tables.stop + 2 * len(self)))
        if filler := next(filter(None, later), None):
            return replace(self.loading.batch(filler[:1]), is_filler=True)
        raise DataError("no training example can be made from these tables", remedy="Use other data.sources")

    def _find(self, number: int) -> StreamedTable:
        """Return the table of a number, counted from the beginning of the run."""
        epoch, left = divmod(number, len(self) // self.batch_size * self.batch_size)
        group = group_size(self.batch_size)
        sizes = [lane.size for lane in self.lanes]

        def taken(turns: int) -> int:
            return sum(min(size, turns * group) for size in sizes)

        turn = bisect_right(range(max(sizes) // group + 1), left, key=taken) - 1
        left -= taken(turn)
        for lane in self.lanes:
            here = min(group, max(lane.size - turn * group, 0))
            if left < here:
                break
            left -= here
        place = epoch * lane.size + turn * group + left
        return next(lane.rows(place, place + 1))

    def _make(self, row: StreamedTable) -> Sequence[TableEncoding]:
        epoch = row.epoch if self.masks == "dynamic" else 0
        generator = np.random.default_rng((self.loading.seed, 3, epoch, row.shard, row.row))
        return self.maker(f"{row.shard}/{row.row}", row.read, generator)


class StreamOrder(Sampler[int]):
    """The numbers of the micro-batches of one process, beginning at `start`; its length is that of the whole run."""

    def __init__(self, schedule: Schedule, rank: int, start: int = 0) -> None:
        self.schedule, self.rank, self.start = schedule, rank, start

    def __len__(self) -> int:
        return self.schedule.total_batches

    def __iter__(self) -> Iterator[int]:
        ranks = self.schedule.ranks
        return iter(range(self.start * ranks + self.rank, len(self) * ranks, ranks))


class StreamDataModule(TableDataModule):
    """Learns from a stream; all else is served as of any dataset. What chooses training examples is not asked."""

    dataset: StreamedDataset

    @cached_property
    def stream(self) -> TableStream:
        """Tables to learn from."""
        return TableStream(self.dataset.files, self.dataset.maker(self.serializer), self.loading, self.dataset.masks)

    def examples(self, split: str, *, training: bool = False) -> list[TableExample]:
        """Return the examples of a split that are predicted; none that are learnt from, as these are streamed."""
        return [] if training else super().examples(split)

    def split_marks(self) -> dict[str, str]:
        """Return the number and a digest of the files of the stream, and of the examples of each other split."""
        files = [(file.path.name, file.path.stat().st_size, file.tables) for file in self.dataset.files]
        digest = hashlib.sha256(json.dumps(files).encode()).hexdigest()[:12]
        return {**super().split_marks(), "train": f"{len(files):,} files of tables, digest {digest}"}

    def training(self) -> TableStream:
        """Return the examples to learn from."""
        return self.stream

    def sample_batches(self, count: int = 64, size: int = 8) -> Iterator[TableBatch]:
        """Return batches of `count` training examples of the beginning, made when they are asked for."""
        made = self.stream.some(count)
        for start in range(0, len(made), size):
            yield self.loading.batch(made[start : start + size])

    def every_batch(self) -> Iterator[TableBatch]:
        """Return batches of so many examples of the beginning that a stream is known by them."""
        return self.sample_batches(KNOWN_BY)

    def train_dataloader(self) -> DataLoader[TableBatch]:
        """Return the whole run as one pass, or the rest of it."""
        stream = copy(self.stream)
        stream.loading = replace(self.loading, micro_batch=self.schedule.micro_batch)
        stream.batch_size = self.schedule.batch_size
        order = StreamOrder(self.schedule, self.loading.rank, self._first_batch)
        return self._batches(stream, order, self.schedule.accumulate)
