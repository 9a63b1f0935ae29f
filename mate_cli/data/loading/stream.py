"""Training examples generated during training, from a corpus that is read as a stream.

The tables of an optimizer step and their examples depend on the seed, the step and `trainer.batch_size` only. The sizes
of micro-batches, data workers, ranks and the step from which a run was resumed have no effect.
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
"""Maximum number of shard sequences (lanes) that are read in parallel."""
SAMPLE = 64
"""Number of examples whose lengths represent the whole stream."""
CALIBRATION_EXAMPLES = 1024
"""Number of examples from the start of the stream used for data-dependent initialization of weights."""

Masks = Literal["dynamic", "static"]
Maker = Callable[[str, Callable[[], CorpusTable], np.random.Generator], Sequence[TableEncoding]]
"""Generates the training examples of a table (possibly none). The generator is the only source of randomness.

The first argument is the name of the table, under which intermediate results may be cached."""


class StreamedDataset(TableDataset, ABC):
    """A dataset whose training examples are generated from its tables during training.

    Its "train" split is empty.

    Attributes:
        masks: "dynamic" if the examples of a table differ between epochs, else "static".
        splits: splits for evaluation, and "train".
    """

    masks: Masks = "dynamic"
    splits: tuple[str, ...] = ("train", "dev")

    @property
    @abstractmethod
    def files(self) -> list[Shard]:
        """Parquet files (shards) of the corpus, which contain the training tables."""

    @abstractmethod
    def maker(self, serializer: Serializer) -> Maker:
        """Return a function that generates training examples from a table, see `Maker`.

        Args:
            serializer: serializer that encodes the examples.
        """

    @property
    def data_module(self) -> type[TableDataModule]:
        """Class of the data module, which streams the training examples."""
        return StreamDataModule


class TableStream(Dataset[TableBatch]):
    """Dataset of micro-batches that are generated on demand from the tables of a corpus.

    The index of a micro-batch counts the micro-batches of all ranks.

    The files of the corpus are divided into lanes, which are read in parallel. If they cannot be divided evenly, two
    lanes may each read a part of one file. An epoch takes `group_size` tables of each lane in turn until all tables are
    taken, in whole optimizer steps. The tables of the last, incomplete step are omitted.

    Args:
        shards: files of the corpus.
        maker: function that generates the training examples of a table, see `Maker`.
        loading: sizes of batches and the seed.
        masks: see `StreamedDataset`.
        batch_size: number of tables per optimizer step. None means the size of a micro-batch.
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
    """Failures are not recorded. Tables that yield no example are skipped."""
    cuts = np.zeros((0, len(TRUNCATION_COUNTS)), np.int32)
    """Truncation is not counted, because examples use only a part of each table."""

    def __len__(self) -> int:
        """Return the number of training tables in an epoch."""
        return sum(lane.size for lane in self.lanes)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Token counts of `SAMPLE` generated examples, to estimate the lengths of all examples."""
        return np.array([len(encoding) for encoding in self.sample_encodings(SAMPLE)])

    def sample_encodings(self, count: int) -> list[TableEncoding]:
        """Generate up to `count` training examples from the first tables of the first lane.

        A lane is a sequence of files.
        """
        rows = self.lanes[0].rows(0, min(count, self.lanes[0].size))
        return [encoding for row in rows for encoding in self._make(row)][:count]

    def __getitem__(self, number: int) -> TableBatch:
        """Generate the micro-batch with this number, counted over all ranks since the run's start.

        If its tables yield no example, the result is a filler: an example of a later table, whose loss is ignored.

        Raises:
            DataError: no table yields an example.
        """
        start = number * self.loading.micro_batch
        tables = range(start, start + self.loading.micro_batch)
        if encodings := [encoding for table in tables for encoding in self._make(self._find(table))]:
            return self.loading.batch(encodings)
        later_encodings = (self._make(self._find(table)) for table in range(tables.stop, tables.stop + 2 * len(self)))
        if filler := next(filter(None, later_encodings), None):
            return replace(self.loading.batch(filler[:1]), is_filler=True)
        raise DataError("no training example can be made from these tables", remedy="Use other data.sources")

    def _find(self, number: int) -> StreamedTable:
        """Return the table at position `number` of the endless training sequence of all ranks."""
        epoch, offset = divmod(number, len(self) // self.batch_size * self.batch_size)
        group = group_size(self.batch_size)
        sizes = [lane.size for lane in self.lanes]

        def count_tables(turns: int) -> int:
            return sum(min(size, turns * group) for size in sizes)

        turn = bisect_right(range(max(sizes) // group + 1), offset, key=count_tables) - 1
        offset -= count_tables(turn)
        for lane in self.lanes:
            lane_tables = min(group, max(lane.size - turn * group, 0))
            if offset < lane_tables:
                break
            offset -= lane_tables
        index = epoch * lane.size + turn * group + offset
        return next(lane.rows(index, index + 1))

    def _make(self, row: StreamedTable) -> Sequence[TableEncoding]:
        epoch = row.epoch if self.masks == "dynamic" else 0
        generator = np.random.default_rng((self.loading.seed, 3, epoch, row.shard, row.row))
        return self.maker(f"{row.shard}/{row.row}", row.read, generator)


class StreamOrder(Sampler[int]):
    """Sampler that yields the index of each micro-batch of one rank, in training order.

    Args:
        schedule: sizes of batches and of the run. The length of the sampler is that of the whole run.
        rank: index of this process among `schedule.ranks`.
        start: first micro-batch of this rank to yield.
    """

    def __init__(self, schedule: Schedule, rank: int, start: int = 0) -> None:
        self.schedule, self.rank, self.start = schedule, rank, start

    def __len__(self) -> int:
        return self.schedule.total_batches

    def __iter__(self) -> Iterator[int]:
        ranks = self.schedule.ranks
        return iter(range(self.start * ranks + self.rank, len(self) * ranks, ranks))


class StreamDataModule(TableDataModule):
    """Data module that generates training examples during training, from a table corpus.

    `training_examples` is not used.
    """

    dataset: StreamedDataset

    @cached_property
    def stream(self) -> TableStream:
        """Stream of training examples generated from the files of the dataset."""
        return TableStream(self.dataset.files, self.dataset.maker(self.serializer), self.loading, self.dataset.masks)

    def examples(self, split: str, *, training: bool = False) -> list[TableExample]:
        """Return the questions of an evaluation split. Training examples come from the stream.

        Training examples are generated by the stream instead.
        """
        return [] if training else super().examples(split)

    def split_marks(self) -> dict[str, str]:
        """Return a text per split that identifies its content, such as "3 files of tables, ...".

        The train split has the number of its files and a digest of their names, sizes and table counts. Other splits
        are described by the number and digest of their examples.

        A description has the number of files or examples and a digest of them.
        """
        files = [(file.path.name, file.path.stat().st_size, file.tables) for file in self.dataset.files]
        digest = hashlib.sha256(json.dumps(files).encode()).hexdigest()[:12]
        return {**super().split_marks(), "train": f"{len(files):,} files of tables, digest {digest}"}

    def training(self) -> TableStream:
        """Return the stream that generates the training examples."""
        return self.stream

    def sample_batches(self, count: int = 64, size: int = 8) -> Iterator[TableBatch]:
        """Yield batches of the first `count` training examples that are generated.

        Args:
            count: number of examples.
            size: number of examples per batch.
        """
        encodings = self.stream.sample_encodings(count)
        for start in range(0, len(encodings), size):
            yield self.loading.batch(encodings[start : start + size])

    def every_batch(self) -> Iterator[TableBatch]:
        """Yield batches of the first `CALIBRATION_EXAMPLES` generated training examples.

        These examples represent the whole endless stream.
        """
        return self.sample_batches(CALIBRATION_EXAMPLES)

    def train_dataloader(self) -> DataLoader[TableBatch]:
        """Return a loader that generates the training batches of the run on this rank.

        A resumed run gets the rest of its batches.
        """
        stream = copy(self.stream)
        stream.loading = replace(self.loading, micro_batch=self.schedule.micro_batch)
        stream.batch_size = self.schedule.batch_size
        order = StreamOrder(self.schedule, self.loading.rank, self._first_batch)
        return self._batches(stream, order, self.schedule.accumulate)
