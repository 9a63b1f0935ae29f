"""The order of training examples, as a pure function of the seed and the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from mate_cli.errors import ConfigError

WINDOW = 16
"""Optimizer steps whose examples are sorted by length together: larger pads less, smaller mixes more."""


@dataclass(frozen=True)
class Schedule:
    """Examples of a step, and their parts that fit the machine.

    Args:
        batch_size: examples per optimizer step, whatever the machine.
        micro_batch: examples per forward pass; with `ranks` a divisor of `batch_size`.
        total_steps: optimizer steps of the whole run.
        ranks: processes that share the micro-batches of every step.
    """

    batch_size: int
    micro_batch: int
    total_steps: int
    ranks: int = 1

    @property
    def accumulate(self) -> int:
        """Forward passes per optimizer step, of each process."""
        return self.batch_size // self.micro_batch // self.ranks

    @property
    def total_batches(self) -> int:
        """Forward passes of the whole run, of each process."""
        return self.total_steps * self.accumulate


def plan_schedule(
    examples: int, *, batch_size: int, micro_batch: int, max_epochs: float | None, max_steps: int | None, ranks: int = 1
) -> Schedule:
    """Derive micro-batches and the number of steps, so that moving machines does not change the experiment.

    Args:
        examples: size of the training split.
        batch_size: examples per optimizer step.
        micro_batch: the most examples that fit in one forward pass; rounded down to a divisor of a process's share.
        max_epochs: passes over the split; a fraction is allowed.
        max_steps: optimizer steps; the smaller of both limits counts.
        ranks: processes that train together.

    Raises:
        ConfigError: the split is smaller than one batch, neither limit is given, or the processes get unequal shares.
    """
    check_shares(batch_size, ranks)
    if examples < batch_size:
        raise ConfigError(
            f"the training split has {examples} usable examples, fewer than trainer.batch_size={batch_size}",
            remedy=f"Set trainer.batch_size={max(ranks, examples - examples % ranks)} or less, or use more data",
        )
    limits = [max_steps] if max_steps else []
    if max_epochs:
        limits.append(max(1, round(max_epochs * examples / batch_size)))
    if not limits:
        raise ConfigError("the length of training is not limited", remedy="Set trainer.max_epochs or trainer.max_steps")
    share = batch_size // ranks
    divisors = [size for size in range(1, min(micro_batch, share) + 1) if share % size == 0]
    return Schedule(batch_size, divisors[-1], min(limits), ranks)


def check_shares(batch_size: int, ranks: int) -> None:
    """Refuse processes that cannot have equal shares of a batch.

    Raises:
        ConfigError: with numbers that fit.
    """
    if batch_size % ranks:
        equal = ", ".join(str(number) for number in range(1, ranks) if batch_size % number == 0)
        above = -(-batch_size // ranks) * ranks
        raise ConfigError(
            f"trainer.batch_size={batch_size} cannot be divided among {ranks} processes",
            where="hardware.devices",
            remedy=f"Set devices x nodes to one of {equal}, or set trainer.batch_size={above}",
        )


class LengthGroupedBatches(Sampler[list[Any]]):
    """Micro-batches of similar length in an order that depends on the seed and the position alone.

    The whole run is one pass: epochs are permutations laid end to end, so that no batch is ever smaller than
    the others. A run that is resumed at batch n yields exactly the batches n, n + 1, ... of the uninterrupted one.
    Of several processes, each takes its turn: together they see in every step what one alone would see.
    It begins with the micro-batch `start` of this process.
    """

    def __init__(
        self, lengths: Sequence[int] | np.ndarray, schedule: Schedule, seed: int, rank: int = 0, start: int = 0
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.schedule, self.seed, self.rank, self.start = schedule, seed, rank, start
        self._epochs: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return self.schedule.total_batches

    def __iter__(self) -> Iterator[list[Any]]:
        """Yield example indices, one list per micro-batch, beginning at `start`."""
        ranks = self.schedule.ranks
        per_window = WINDOW * self.schedule.accumulate
        for window in range(self.start // per_window, -(-len(self) // per_window)):
            first = window * per_window
            batches = self._window(window)[self.rank :: ranks]
            yield from batches[max(self.start - first, 0) : len(self) - first]

    def _window(self, window: int) -> list[list[Any]]:
        size = WINDOW * self.schedule.batch_size
        first = window * size
        chosen = self._stream(first, first + size)
        by_length = np.argsort(self.lengths[chosen], kind="stable")
        drawn = np.random.default_rng((self.seed, 1, window)).permutation(size // self.schedule.micro_batch)
        steps = np.sort(drawn.reshape(WINDOW, -1))
        # Up in length and down again: processes that take turns get a step's long and short ones alike.
        half = steps.shape[1] // 2
        order = np.hstack([steps[:, :half], steps[:, half:][:, ::-1]]).ravel()
        return [self._batch(chosen[drawn], first + drawn) for drawn in by_length.reshape(len(order), -1)[order]]

    def _batch(self, examples: np.ndarray, places: np.ndarray) -> list[Any]:
        """Return the examples of a micro-batch, which have these places in the endless sequence of epochs."""
        return examples.tolist()

    def _stream(self, begin: int, end: int) -> np.ndarray:
        """Return the examples begin..end of the endless sequence of shuffled epochs."""
        size = len(self.lengths)
        numbers = range(begin // size, -(-end // size))
        # An epoch is drawn once: its windows come one after the other.
        self._epochs = {n: self._epochs[n] if n in self._epochs else self._draw(n) for n in numbers}
        return np.concatenate([self._epochs[n][max(begin - n * size, 0) : end - n * size] for n in numbers])

    def _draw(self, epoch: int) -> np.ndarray:
        """Return the examples of an epoch, shuffled."""
        return np.random.default_rng((self.seed, 0, epoch)).permutation(len(self.lengths))


class PlacedBatches(LengthGroupedBatches):
    """The same micro-batches, of pairs: an example, and its place in the endless sequence of epochs."""

    def _batch(self, examples: np.ndarray, places: np.ndarray) -> list[Any]:
        return list(zip(examples.tolist(), places.tolist(), strict=True))
