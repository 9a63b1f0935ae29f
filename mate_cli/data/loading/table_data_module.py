"""The loaders of any dataset of questions about tables."""

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
"""Examples among which a few are chosen at a time."""

Selector = Callable[[Sequence[TableExample]], list[TableExample]]


class NoDataset:
    """The dataset of who brings questions of their own."""

    splits: tuple[str, ...] = ()
    facts: Mapping[str, str] = MappingProxyType({})

    def examples(self, split: str) -> list[TableExample]:
        """Return no examples."""
        return []


class TrainingSet(Protocol):
    """Training examples of a run, with their truncation and failures."""

    @property
    def failures(self) -> Mapping[str, str]:
        """Reasons why examples could not be encoded, by name."""

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of the examples, or of some that stand for all."""

    @property
    def cuts(self) -> np.ndarray:
        """Counts of what was cut from each table, [N, 4], see `TRUNCATION_COUNTS`; [0, 4] where nobody counted."""

    def __len__(self) -> int:
        """Count the examples of an epoch."""


@dataclass(frozen=True)
class LoaderOptions:
    """Settings that turn encodings into batches.

    Args:
        micro_batch: examples per forward pass.
        workers: processes that collate.
        encoders: processes that encode a split.
        seed: of the order of training examples.
        reset_positions: see `collate`.
        max_positions: see `collate`.
        cache: where encodings are kept.
        prepare: what is done to each batch where it is made, such as planning its attention.
        pin_memory: keep batches in memory from which copies to a GPU overlap with work.
        limit_train: use only the first examples of the training split.
        limit_dev: use only the first examples of every other split, such as dev.
        limit_test: use only the first examples of the test split.
        rank: which of `ranks` processes loads, each its share of the batches.
        ranks: processes that train together.
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
        """Return the number of examples of a split that are predicted; None for all."""
        return self.limit_test if split == "test" else self.limit_dev

    def batch(self, encodings: Sequence[TableEncoding]) -> TableBatch:
        """Collate and prepare encodings."""
        batch = collate(encodings, reset_positions=self.reset_positions, max_positions=self.max_positions)
        return self.prepare(batch) if self.prepare else batch


class Batches(Dataset[TableBatch]):
    """Encodings indexed by lists: each list is a batch."""

    def __init__(self, encodings: EncodedSplit | EncodedExamples, loading: LoaderOptions) -> None:
        self.encodings, self.loading = encodings, loading

    def __getitem__(self, indices: list[int]) -> TableBatch:
        """Collate and prepare the encodings at `indices`."""
        return self.loading.batch([self.encodings[index] for index in indices])


class AugmentedBatches(Batches):
    """Encodings indexed by lists of draws, each changed by chance that follows from the seed and the draw's place."""

    def __init__(self, encodings: EncodedSplit, loading: LoaderOptions, change: Augmentation) -> None:
        super().__init__(encodings, loading)
        self.change = change

    def __getitem__(self, draws: list[tuple[int, int]]) -> TableBatch:  # type: ignore[override]
        """Change, collate and prepare the encodings that were drawn: pairs of their index and the draw's place."""
        seed = self.loading.seed
        return self.loading.batch(
            [self.change(self.encodings[index], np.random.default_rng((seed, 5, place))) for index, place in draws]
        )


class TableDataModule:
    """Encode the splits of a dataset once and serve them in batches of similar length.

    Args:
        dataset: reads the authors' files.
        serializer: encodes examples.
        loading: sizes, workers and positions of batches.
        training_examples: chooses what is learnt from.
        evaluation_examples: chooses what is predicted.
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
        """Return the examples of a split that are learnt from or predicted.

        Raises:
            DataError: the split is empty.
        """
        choose = self.training_examples if training else self.evaluation_examples
        limit = self.loading.limit_train if training else self.loading.limit_of(split)
        return self._require_examples(take_selected(choose, partial(self._read, split), limit), split)

    def training_questions(self) -> list[TableExample]:
        """Return the training questions, as far as there are to be examples of them."""
        limit = self.loading.limit_train
        return self._read("train", limit and _portions(limit))

    def _read(self, split: str, count: int | None) -> list[TableExample]:
        """Return the first questions of a split as the dataset has them; None for all."""
        if count is not None and (read := getattr(self.dataset, "first_examples", None)):
            return list(read(split, count))
        return list(self.dataset.examples(split))[:count]

    def questions(self, split: str) -> list[TableExample]:
        """Return the questions of a split as the dataset has them, of which `examples` makes what a task predicts.

        Raises:
            DataError: the split is empty.
        """
        return self._require_examples(self._read(split, self.loading.limit_of(split)), split)

    def has_examples(self, split: str) -> bool:
        """Tell whether there is anything to predict: nothing where a task needs answers and the split has none."""
        return split in self.dataset.splits and bool(
            take_selected(self.evaluation_examples, partial(self._read, split), 1)
        )

    def split_marks(self) -> dict[str, str]:
        """Return the number and a digest of the examples of each split, by its name, before any is encoded."""
        from mate_cli.data.loading.cache import digest_examples

        splits = [(name, False) for name in self.dataset.splits if name != "train" and self.has_examples(name)]
        found = [(name, self.examples(name, training=training)) for name, training in [("train", True), *splits]]
        return {name: f"{len(own):,} examples, digest {digest_examples(own)[:12]}" for name, own in found}

    def _require_examples(self, examples: list[TableExample], split: str) -> list[TableExample]:
        if examples:
            return examples
        problem, remedy = f"no usable example in split {split!r}", f"Splits here: {', '.join(self.dataset.splits)}"
        outcomes = Counter(getattr(one, "outcome", "") for one in self.dataset.examples(split))
        if outcomes:
            problem += f": {', '.join(f'{count:,} {outcome}'.strip() for outcome, count in outcomes.items())}"
            remedy = "A task learns from cells where answers have coordinates, (row, column) from 0 below the header"
        raise DataError(problem, remedy=remedy)

    def encodings(self, split: str, *, training: bool = False) -> EncodedSplit:
        """Return the encodings of a split, from the cache where they are there."""
        key = (split, training)
        if key not in self._encoded:
            self._encoded[key] = self._cached(self.examples(split, training=training), split)
        return self._encoded[key]

    def _cached(self, examples: Sequence[TableExample], name: str) -> EncodedSplit:
        from mate_cli.data.loading.cache import encode_split  # what brings examples of its own need not wait for Arrow

        return encode_split(examples, self.serializer, self.loading.cache, name, self.loading.encoders)

    def training(self) -> TrainingSet:
        """Return the examples to learn from.

        Raises:
            DataError: none can be encoded.
        """
        encodings = self.encodings("train", training=True)
        if not len(encodings) and (reasons := [*encodings.failures.values()]):
            remedy = "Change the settings of encoding"
            raise DataError(f"no training example can be encoded: {reasons[0]}", remedy=remedy)
        return encodings

    @property
    def facts(self) -> Mapping[str, str]:
        """Notes on the data for the record, in words; none where the configuration says it all."""
        return self.dataset.facts

    def sample_batches(self, count: int = 64, size: int = 8) -> Iterator[TableBatch]:
        """Yield batches of `count` training examples evenly spread over the split."""
        encodings = self.encodings("train", training=True)
        places = range(0, len(encodings), max(1, len(encodings) // count))
        batches = Batches(encodings, self.loading)
        for start in range(0, len(places), size):
            yield batches[list(places[start : start + size])]

    def every_batch(self) -> Iterator[TableBatch]:
        """Return batches of all training examples, made one by one as they are asked for; the same for any schedule."""
        return self.sample_batches(len(self.training()))

    def set_schedule(self, schedule: Schedule, first_batch: int = 0) -> None:
        """Serve the training split by a schedule, from one of its micro-batches on; comes before any training."""
        self._schedule, self._first_batch = schedule, first_batch

    @property
    def schedule(self) -> Schedule:
        """Sizes of batches and of the run."""
        if self._schedule is None:
            raise RuntimeError("there is no schedule: call `set_schedule` before training")
        return self._schedule

    def epoch(self, step: int) -> float:
        """Return passes over the training split after `step` optimizer steps."""
        return round(step / (len(self.training()) // self.schedule.batch_size), 3)

    def train_dataloader(self) -> DataLoader[TableBatch]:
        """Return the whole run as one pass, or the rest of it."""
        encodings, own = self.encodings("train", training=True), self.loading
        lengths, first = encodings.lengths, self._first_batch
        if change := self.serializer.augmentation:
            placed = PlacedBatches(lengths, self.schedule, own.seed, own.rank, first)
            return self._batches(AugmentedBatches(encodings, own, change), placed, self.schedule.accumulate)
        order = LengthGroupedBatches(lengths, self.schedule, own.seed, own.rank, first)
        return self._batches(Batches(encodings, own), order, self.schedule.accumulate)

    def loader(self, split: str) -> DataLoader[TableBatch]:
        """Return a split for evaluation, longest examples first, so that memory runs out at once or never."""
        return self.loader_encoded(self.encodings(split))

    def loader_of(self, examples: Sequence[TableExample], name: str) -> DataLoader[TableBatch]:
        """Load any examples for evaluation, from the cache where they are there; the progress bar calls them `name`."""
        return self.loader_encoded(self._cached(examples, name))

    def loader_encoded(self, encodings: EncodedSplit | EncodedExamples) -> DataLoader[TableBatch]:
        """Load encodings for evaluation, longest first."""
        batches = batch_by_length(encodings, 2 * self.loading.micro_batch)
        own = batches_of_rank(batches, self.loading.rank, self.loading.ranks)
        return self._batches(Batches(encodings, self.loading), own)

    def _batches(self, dataset: Dataset[TableBatch], order: Any, ahead: int = 0) -> DataLoader[TableBatch]:  # noqa: ANN401
        """Return a loader of the batches that `order` names; its workers load at least `ahead` of them in advance."""
        workers = self.loading.workers
        return DataLoader(
            dataset,
            sampler=order,
            batch_size=None,
            num_workers=workers,
            prefetch_factor=max(2, -(-ahead // workers)) if workers else None,
            persistent_workers=workers > 0,
            pin_memory=self.loading.pin_memory,
        )


def take_selected(
    choose: Selector, read: Callable[[int | None], Sequence[TableExample]], limit: int | None
) -> list[TableExample]:
    """Return the first examples that are chosen, without reading and choosing among many more: both take their time.

    Each example is chosen by itself; None is no limit.

    Args:
        choose: selects some of the examples that it is given.
        read: returns as many of the first examples as there are of a count; None for all.
        limit: of the examples that are chosen.
    """
    if limit is None:
        return choose(read(None))
    count = _portions(limit)
    while len(chosen := choose(examples := read(count))[:limit]) < limit and len(examples) == count:
        count *= 2
    return chosen


def _portions(limit: int) -> int:
    """Return how many examples are looked at first for some that are chosen."""
    return PORTION * -(-limit // PORTION)


def batch_by_length(encodings: EncodedSplit | EncodedExamples, size: int) -> list[list[int]]:
    """Return batches of `size` examples, the longest first."""
    order = (-encodings.lengths).argsort(kind="stable").tolist()
    return [order[start : start + size] for start in range(0, len(order), size)]


def batches_of_rank(batches: list[list[int]], rank: int, ranks: int) -> list[list[int]]:
    """Return the batches of one of several processes; all get as many, so some of the last are given twice."""
    missing = -len(batches) % ranks
    return (batches + batches[-1:] * missing)[rank::ranks]
