"""Data module that encodes any dataset of questions about tables and loads batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from torch.utils.data import DataLoader, Dataset

from mate_cli.data.datasets.catalogue import TableDataset
from mate_cli.data.loading.batching import LengthGroupedBatches, PlacedBatches, Schedule
from mate_cli.data.loading.collate import collate
from mate_cli.data.loading.in_memory import EncodedExamples
from mate_cli.errors import DataError
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableBatch, TableEncoding
from mate_cli.tokenization.serializers.serializer import Augmentation, Serializer

if TYPE_CHECKING:
    from mate_cli.data.loading.cache import EncodedSplit

PORTION = 128
"""Number of examples that are read and filtered at a time."""

Selector = Callable[[Sequence[TableExample]], list[TableExample]]


class EmptyDataset:
    """Dataset without examples, for callers that pass examples to the data module directly."""

    splits: tuple[str, ...] = ()
    facts: Mapping[str, str] = MappingProxyType({})

    def examples(self, split: str) -> list[TableExample]:
        """Return an empty list, because no split has examples."""
        return []


class TrainingSet(Protocol):
    """Protocol of the encoded training examples of a run, which are stored or streamed."""

    @property
    def failures(self) -> Mapping[str, str]:
        """Reason for each training example that could not be encoded, by example id."""

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each training example, or of a representative sample."""

    @property
    def cuts(self) -> np.ndarray:
        """Counts of cells, rows and columns that truncation changed, per table, [N, 4].

        [0, 4] if not counted. See `TRUNCATION_COUNTS`.
        """

    def __len__(self) -> int:
        """Return the number of examples in an epoch."""


@dataclass(frozen=True)
class LoaderOptions:
    """Settings of the data loaders.

    Args:
        micro_batch: number of examples per forward pass.
        workers: number of data worker processes.
        encoders: number of processes that encode a split.
        seed: seed of the order of training examples.
        reset_positions: see `collate`.
        max_positions: see `collate`.
        cache: folder of cached encodings.
        prepare: function applied to each batch in the data worker, such as planning of its attention.
        pin_memory: whether to pin the memory of batches, which lets copies to a GPU overlap with computation.
        limit_train: maximum number of examples of the training split. None means all.
        limit_dev: maximum number of examples of every split except train and test. None means all.
        limit_test: maximum number of examples of the test split. None means all.
        rank: index of this process among `ranks`. Each rank loads its share of the batches.
        ranks: world size.
    """

    micro_batch: int
    workers: int
    seed: int
    reset_positions: bool
    max_positions: int
    cache: Path
    prepare: Callable[[TableBatch], TableBatch] | None = None
    pin_memory: bool = False
    limit_train: int | None = None
    limit_dev: int | None = None
    limit_test: int | None = None
    rank: int = 0
    ranks: int = 1
    encoders: int = 1

    def limit_of(self, split: str) -> int | None:
        """Return the maximum number of evaluation examples of a split, or None for no limit."""
        return self.limit_test if split == "test" else self.limit_dev

    def batch(self, encodings: Sequence[TableEncoding]) -> TableBatch:
        """Collate encodings into a batch, and apply `prepare` to the batch if it is set."""
        batch = collate(encodings, reset_positions=self.reset_positions, max_positions=self.max_positions)
        return self.prepare(batch) if self.prepare else batch


class Batches(Dataset[TableBatch]):
    """Dataset that collates encodings into batches, indexed by lists of encoding indices."""

    def __init__(self, encodings: EncodedSplit | EncodedExamples, loading: LoaderOptions) -> None:
        self.encodings, self.loading = encodings, loading

    def __getitem__(self, indices: list[int]) -> TableBatch:
        """Return the batch of the encodings at `indices`, padded, as input of the network."""
        return self.loading.batch([self.encodings[index] for index in indices])


class AugmentedBatches(Batches):
    """Dataset of training batches in which each encoding is randomly augmented.

    The augmentation depends on the seed of the run and the number of the sample only.

    Args:
        encodings: encodings to change.
        loading: settings of the loader.
        change: function that augments an encoding with a random generator.
    """

    def __init__(self, encodings: EncodedSplit, loading: LoaderOptions, change: Augmentation) -> None:
        super().__init__(encodings, loading)
        self.change = change

    def __getitem__(self, draws: list[tuple[int, int]]) -> TableBatch:  # type: ignore[override]
        """Return a batch of randomly augmented encodings, padded, as input of the network.

        Args:
            draws: pairs of the index of an encoding and the number of the sample, see `PlacedBatches`.
        """
        generators = (np.random.default_rng((self.loading.seed, 5, number)) for _, number in draws)
        encodings = (self.encodings[index] for index, _ in draws)
        return self.loading.batch(list(map(self.change, encodings, generators)))


class TableDataModule:
    """Data module of a run, which encodes each split once and loads batches of similar length.

    Args:
        dataset: dataset with the splits.
        serializer: serializer that encodes examples.
        loading: settings of the loaders.
        training_examples: function that selects the examples to train on.
        evaluation_examples: function that selects the examples to predict.
    """

    def __init__(
        self,
        dataset: TableDataset,
        serializer: Serializer,
        loading: LoaderOptions,
        training_examples: Selector,
        evaluation_examples: Selector,
    ) -> None:
        self.dataset, self.serializer, self.loading = dataset, serializer, loading
        self.training_examples, self.evaluation_examples = training_examples, evaluation_examples
        self._schedule: Schedule | None = None
        self._first_batch = 0
        self._encoded: dict[tuple[str, bool], EncodedSplit] = {}

    def examples(self, split: str, *, training: bool = False) -> list[TableExample]:
        """Return the evaluation examples of a split, or with `training` its training examples.

        Raises:
            DataError: the split has no usable example.
        """
        choose = self.training_examples if training else self.evaluation_examples
        limit = self.loading.limit_train if training else self.loading.limit_of(split)
        return self._require_examples(take_selected(choose, partial(self._read, split), limit), split)

    def read_from(self, dataset: TableDataset) -> None:
        """Read all questions from another dataset, and discard the cached encodings."""
        self.dataset, self._encoded = dataset, {}

    def training_questions(self) -> list[TableExample]:
        """Return the training questions, from which the task then selects usable examples.

        With `limit_train` only the questions that may be needed are read.
        """
        limit = self.loading.limit_train
        return self._read("train", limit and _portions(limit))

    def _read(self, split: str, count: int | None) -> list[TableExample]:
        """Return the first `count` questions of a split, or all questions if `count` is None."""
        if count is not None and (read_first := getattr(self.dataset, "first_examples", None)):
            return list(read_first(split, count))
        return list(self.dataset.examples(split))[:count]

    def questions(self, split: str) -> list[TableExample]:
        """Return the questions of a split, before the task selects usable examples.

        Raises:
            DataError: the split is empty.
        """
        return self._require_examples(self._read(split, self.loading.limit_of(split)), split)

    def has_examples(self, split: str) -> bool:
        """Return whether a split has an example that the task can predict.

        A task that needs gold answers cannot predict questions without an answer.
        """
        read = partial(self._read, split)
        return split in self.dataset.splits and bool(take_selected(self.evaluation_examples, read, 1))

    def split_marks(self) -> dict[str, str]:
        """Return a text per split that identifies its examples by their number and a digest.

        Examples are not encoded.
        """
        from mate_cli.data.loading.cache import digest_examples

        splits = [(name, False) for name in self.dataset.splits if name != "train" and self.has_examples(name)]
        parts = {name: self.examples(name, training=training) for name, training in [("train", True), *splits]}
        return {name: f"{len(part):,} examples, digest {digest_examples(part)[:12]}" for name, part in parts.items()}

    def _require_examples(self, examples: list[TableExample], split: str) -> list[TableExample]:
        if examples:
            return examples
        problem, hint = f"no usable example in split {split!r}", f"Splits here: {', '.join(self.dataset.splits)}"
        outcomes = Counter(getattr(example, "outcome", "") for example in self.dataset.examples(split))
        if outcomes:
            problem += f": {', '.join(f'{count:,} {outcome}'.strip() for outcome, count in outcomes.items())}"
            hint = "Cell labels come from answers with coordinates, (row, column) counted from 0 below the header"
        raise DataError(problem, remedy=hint)

    def encodings(self, split: str, *, training: bool = False) -> EncodedSplit:
        """Return the encodings of a split, read from the cache if available.

        Args:
            split: name of the split.
            training: whether to encode the examples to train on instead of the examples to predict.
        """
        key = (split, training)
        if key not in self._encoded:
            self._encoded[key] = self._cached(self.examples(split, training=training), split)
        return self._encoded[key]

    def _cached(self, examples: Sequence[TableExample], name: str) -> EncodedSplit:
        # Imported late, because callers with examples of their own do not need Arrow.
        from mate_cli.data.loading.cache import encode_split

        return encode_split(examples, self.serializer, self.loading.cache, name, self.loading.encoders)

    def training(self) -> TrainingSet:
        """Return the encoded training examples.

        Raises:
            DataError: no example can be encoded.
        """
        encodings = self.encodings("train", training=True)
        if not len(encodings) and (reasons := [*encodings.failures.values()]):
            hint = "Change the settings of encoding"
            raise DataError(f"no training example can be encoded: {reasons[0]}", remedy=hint)
        return encodings

    @property
    def facts(self) -> Mapping[str, str]:
        """Notes on the data, such as excluded questions, for the run record."""
        return self.dataset.facts

    def sample_batches(self, count: int = 64, size: int = 8) -> Iterator[TableBatch]:
        """Yield batches of about `count` training examples, taken at equal distances.

        Args:
            count: number of examples.
            size: number of examples per batch.
        """
        encodings = self.encodings("train", training=True)
        indices = range(0, len(encodings), max(1, len(encodings) // count))
        batches = Batches(encodings, self.loading)
        for start in range(0, len(indices), size):
            yield batches[list(indices[start : start + size])]

    def every_batch(self) -> Iterator[TableBatch]:
        """Yield all training examples once in batches, in any order, without a schedule."""
        return self.sample_batches(len(self.training()))

    def set_schedule(self, schedule: Schedule, first_batch: int = 0) -> None:
        """Set the batch sizes and the number of steps of the run, before training starts.

        Args:
            schedule: sizes of batches and of the run.
            first_batch: first micro-batch of this rank to load.
        """
        self._schedule, self._first_batch = schedule, first_batch

    @property
    def schedule(self) -> Schedule:
        """Batch size, micro-batch size and number of steps of the run, set by `set_schedule`."""
        if self._schedule is None:
            raise RuntimeError("there is no schedule: call `set_schedule` before training")
        return self._schedule

    def epoch(self, step: int) -> float:
        """Convert a number of optimizer steps to a number of epochs, such as 1.5."""
        return round(step / (len(self.training()) // self.schedule.batch_size), 3)

    def train_dataloader(self) -> DataLoader[TableBatch]:
        """Return a loader of training batches for the whole run, or the rest of a resumed run."""
        encodings, loading = self.encodings("train", training=True), self.loading
        lengths, first = encodings.lengths, self._first_batch
        if augmentation := self.serializer.augmentation:
            numbered_batches = PlacedBatches(lengths, self.schedule, loading.seed, loading.rank, first)
            return self._batches(
                AugmentedBatches(encodings, loading, augmentation), numbered_batches, self.schedule.accumulate
            )
        order = LengthGroupedBatches(lengths, self.schedule, loading.seed, loading.rank, first)
        return self._batches(Batches(encodings, loading), order, self.schedule.accumulate)

    def loader(self, split: str) -> DataLoader[TableBatch]:
        """Return a data loader of the evaluation batches of a split.

        The longest examples come first: if memory is insufficient, the first batch fails.
        """
        return self.loader_encoded(self.encodings(split))

    def build_eval_loader(self, examples: Sequence[TableExample], name: str) -> DataLoader[TableBatch]:
        """Return a data loader that encodes any examples and batches them for evaluation.

        Args:
            examples: examples to load. Their encodings are read from the cache if available.
            name: name of the examples in the progress bar.
        """
        return self.loader_encoded(self._cached(examples, name))

    def loader_encoded(self, encodings: EncodedSplit | EncodedExamples) -> DataLoader[TableBatch]:
        """Return a loader of this rank's share of evaluation batches, longest examples first."""
        # Longest first.
        order, size = (-encodings.lengths).argsort(kind="stable").tolist(), 2 * self.loading.micro_batch
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        rank_batches = batches_of_rank(batches, self.loading.rank, self.loading.ranks)
        return self._batches(Batches(encodings, self.loading), rank_batches)

    def _batches(self, dataset: Dataset[TableBatch], order: Any, prefetch: int = 0) -> DataLoader[TableBatch]:  # noqa: ANN401
        """Return a data loader of the batches in `order`, with at least `prefetch` prefetched."""
        workers = self.loading.workers
        return DataLoader(
            dataset,
            sampler=order,
            batch_size=None,
            num_workers=workers,
            prefetch_factor=max(2, -(-prefetch // workers)) if workers else None,
            persistent_workers=workers > 0,
            pin_memory=self.loading.pin_memory,
        )


def take_selected(
    choose: Selector, read: Callable[[int | None], Sequence[TableExample]], limit: int | None
) -> list[TableExample]:
    """Select up to `limit` usable examples, without reading many more than necessary.

    Reading and selecting examples both take time, so the number of read examples is doubled until it suffices.

    Args:
        choose: function that selects some of its examples. It decides on each example separately.
        read: function that returns the first examples, at most the given number. None means all.
        limit: maximum number of selected examples. None means all.
    """
    if limit is None:
        return choose(read(None))
    count = _portions(limit)
    while len(first_selected := choose(examples := read(count))[:limit]) < limit and len(examples) == count:
        count *= 2
    return first_selected


def _portions(limit: int) -> int:
    """Return how many examples to read first to select `limit`, a multiple of `PORTION`."""
    return PORTION * -(-limit // PORTION)


def batches_of_rank(batches: list[list[int]], rank: int, ranks: int) -> list[list[int]]:
    """Return the batches that a rank evaluates: every `ranks`-th batch from index `rank`.

    All ranks get equally many batches, so the last batch may be loaded by several ranks.

    Args:
        batches: batches of all ranks.
        rank: index of this process.
        ranks: world size.
    """
    padding = -len(batches) % ranks
    return (batches + batches[-1:] * padding)[rank::ranks]
