"""Several reading datasets as one: of each, an epoch has as many questions as its weight says.

Which questions an epoch has, and in which order, depends on the seed and the epoch alone: a run that is resumed sees
what it would have seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from torch.utils.data import DataLoader

from mate_cli.data.check import CheckReport, counts_in_words
from mate_cli.data.datasets.catalogue import Dataset, find_dataset
from mate_cli.data.datasets.passage_questions import PassageQuestions, count_passages, measure_passages
from mate_cli.data.datasets.release_check import LEFT_OUT
from mate_cli.data.loading.batching import LengthGroupedBatches, Schedule, endless
from mate_cli.data.loading.cache import EncodedSplit
from mate_cli.data.loading.table_data_module import Batches, TableDataModule
from mate_cli.data.question_contamination import normalize_words
from mate_cli.errors import ConfigError, DataError
from mate_cli.quoting import format_setting
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableBatch

SPLITS = ("train", "dev")
Weight = Annotated[float, Field(ge=0)]


class ReadingMixture:
    """Questions about passages, of several datasets.

    Examples are called `<dataset>/<name>`, and the dataset is a subset of each split, scored by itself. They are in an
    order that mixes them, so that the first ones stand for all.

    Args:
        datasets: the folder in which each dataset has one of its name.
        weights: how often an epoch has the questions of a dataset, by its name; those with 0 are left out.
        dev: the datasets whose dev splits are dev; no passage of these is learnt from, whichever dataset has it.
        options: of the readers, by dataset.
        download: see `Release`.
        damaged: see `Release`.
        name: of the mixture in commands and records.
    """

    metric = PassageQuestions.metric

    def __init__(
        self,
        datasets: Path,
        weights: Mapping[str, Weight],
        dev: Sequence[str],
        options: Mapping[str, Mapping[str, Any]] | None = None,
        download: Literal["auto", False] = False,
        damaged: Literal["error", "skip"] = "error",
        name: str = "reading_mix",
    ) -> None:
        self.datasets, self.dev, self.name = Path(datasets).expanduser(), tuple(dev), name
        self.weights = {source: float(weight) for source, weight in weights.items() if weight}
        if not self.weights or not self.dev:
            raise ConfigError(
                "no dataset to train or to evaluate on", where="data.weights, data.dev", remedy="Name one"
            )
        told_of = dict(options or {})
        self._sources: dict[str, Dataset] = {
            source: find_dataset(source).open(
                self.datasets / source, download=download, damaged=damaged, **told_of.get(source, {})
            )
            for source in dict.fromkeys((*self.weights, *self.dev))
        }
        self._split: dict[str, list[TableExample]] = {}
        self.left_out: Counter[str] = Counter()
        """How many questions are left out because of others, by the reason; known once the train split was read."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Always train and dev, where all datasets are.

        Raises:
            DataError: a dataset is neither there nor to be fetched.
        """
        for name, source in self._sources.items():
            try:
                source.splits  # noqa: B018 - says what is missing
            except DataError as error:
                get = f"mate data download data={self.name} {format_setting('data.datasets', self.datasets)}"
                leave_out = f"; or leave it out: data.weights.{name}=0" if name not in self.dev else ""
                raise DataError(error.problem, where=error.where, remedy=f"Type: {get}{leave_out}") from error
        return SPLITS

    @property
    def data_module(self) -> type[TableDataModule]:
        """Class of the data module that serves it."""
        return MixtureDataModule

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """Number of questions of each dataset in an epoch, in words, and numbers of those that are left out."""
        counts = Counter(find_source(example.example_id) for example in self.examples("train"))
        shares = (f"{round(self.weights[name] * counts[name]):,} of {counts[name]:,} {name}" for name in self.weights)
        left = {"left out, train": counts_in_words(dict(sorted(self.left_out.items())))} if self.left_out else {}
        return {"an epoch has": ", ".join(shares), **left}

    def examples(self, split: str) -> list[TableExample]:
        """Return all questions of a split, mixed.

        Raises:
            DataError: there is no such split, or a dataset is missing or damaged.
        """
        if split not in self.splits:
            raise DataError(f"has no split {split!r}; choose from {', '.join(self.splits)}", where=self.name)
        if split not in self._split:
            self._split[split] = self._train() if split == "train" else self._mixed("dev", self.dev)
        return list(self._split[split])

    def check(self) -> CheckReport:
        """Check every dataset, and count what the mixture has of each."""
        reports = {name: source.check() for name, source in self._sources.items()}  # type: ignore[attr-defined]
        splits = {split: self.examples(split) for split in self.splits}
        counts = {}
        for split, examples in splits.items():
            for source in dict.fromkeys(self.weights if split == "train" else self.dev):
                source_examples = [example for example in examples if find_source(example.example_id) == source]
                counts[f"{source} {split}"] = count_passages(source_examples)
        counts["all train"] = count_passages(splits["train"])
        counts["all train"] |= {f"{LEFT_OUT}{why}": count for why, count in self.left_out.items()}
        problems = [problem for report in reports.values() for problem in report.problems]
        return CheckReport(problems, counts, measure_passages(splits))

    def fetch(self) -> None:
        """Fetch the public releases of all datasets; what is there and intact is kept."""
        for source in self._sources.values():
            source.fetch()  # type: ignore[attr-defined]

    def _train(self) -> list[TableExample]:
        evaluated = {_passage_of(example) for example in self.examples("dev")}
        distinct, known = [], set()
        self.left_out = Counter()
        for example in self._mixed("train", tuple(self.weights)):
            asked = (example.table.table_id, normalize_words(example.question))
            if _passage_of(example) in evaluated:
                self.left_out["on a passage of evaluation"] += 1
            elif asked in known:
                self.left_out["equal to one of another dataset"] += 1
            else:
                known.add(asked)
                distinct.append(example)
        return distinct

    def _mixed(self, split: str, sources: Sequence[str]) -> list[TableExample]:
        examples = [
            replace(example, example_id=f"{source}/{example.example_id}", subsets=(source, *example.subsets))
            for source in sources
            for example in self._sources[source].examples(split)
        ]
        order = np.random.default_rng(0).permutation(len(examples))
        return [examples[place] for place in order]


def find_source(name: str) -> str:
    """Return the dataset of an example of a mixture."""
    return name.partition("/")[0]


def _passage_of(example: TableExample) -> str:
    """Return the key of the whole passage, of which a part may be read."""
    return example.table.table_id.partition("/")[0]


@dataclass(frozen=True)
class WeightedSplit:
    """A train split of several datasets, of each of which an epoch has a share.

    Parts are the places of the examples of each dataset, [N] of all together; of each an epoch has so many as `counts`
    says.
    """

    encodings: EncodedSplit
    parts: Sequence[np.ndarray]
    counts: Sequence[int]

    @classmethod
    def of(cls, encodings: EncodedSplit, weights: Mapping[str, float]) -> WeightedSplit:
        """Divide a split by the datasets that the names of its examples begin with."""
        names = (name for name in encodings.example_ids if name not in encodings.failures)
        sources = np.array([find_source(name) for name in names])
        by_source = {name: np.flatnonzero(sources == name) for name in weights}
        parts = {name: places for name, places in by_source.items() if len(places)}
        return cls(encodings, list(parts.values()), [max(1, round(weights[n] * len(p))) for n, p in parts.items()])

    @property
    def failures(self) -> Mapping[str, str]:
        """Reasons why some examples could not be encoded, by name."""
        return self.encodings.failures

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of the examples."""
        return self.encodings.lengths

    @property
    def cuts(self) -> np.ndarray:
        """Parts that were cut from each passage, see `TRUNCATION_COUNTS`."""
        return self.encodings.cuts

    def __len__(self) -> int:
        """Count the examples of an epoch."""
        return sum(self.counts)

    def epoch(self, seed: int, number: int) -> np.ndarray:
        """Return the places of the examples of an epoch, shuffled.

        A dataset's own order is endless: an epoch goes on in it where the one before ended.
        """
        drawn = [
            part[endless(len(part), number * count, (number + 1) * count, (seed, 4, place))]
            for place, (part, count) in enumerate(zip(self.parts, self.counts, strict=True))
        ]
        examples = np.concatenate(drawn)
        return examples[np.random.default_rng((seed, 0, number)).permutation(len(examples))]


class WeightedBatches(LengthGroupedBatches):
    """Micro-batches of a weighted split, see `LengthGroupedBatches`."""

    def __init__(self, split: WeightedSplit, schedule: Schedule, seed: int, rank: int = 0, start: int = 0) -> None:
        super().__init__(split.lengths.tolist(), schedule, seed, rank, start)
        self.split = split

    @property
    def _epoch_size(self) -> int:
        return len(self.split)

    def _draw(self, epoch: int) -> np.ndarray:
        return self.split.epoch(self.seed, epoch)


class MixtureDataModule(TableDataModule):
    """Learns from a mixture by its weights; all else is served as of any dataset."""

    dataset: ReadingMixture

    def epoch_size(self, examples: Sequence[TableExample]) -> int:
        """Count the examples that an epoch has, by the weights of their datasets."""
        counts = Counter(find_source(example.example_id) for example in examples)
        return sum(max(1, round(self.dataset.weights[name] * count)) for name, count in counts.items())

    def training(self) -> WeightedSplit:
        """Build the split that is learnt from."""
        return WeightedSplit.of(self.encodings("train", training=True), self.dataset.weights)

    def train_dataloader(self) -> DataLoader[TableBatch]:
        """Return the whole run as one pass, or the rest of it."""
        split, loading = self.training(), self.loading
        order = WeightedBatches(split, self.schedule, loading.seed, loading.rank, self._first_batch)
        return self._batches(Batches(split.encodings, loading), order)
