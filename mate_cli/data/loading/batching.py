"""The order of training examples, as a pure function of the seed, the step and `trainer.batch_size`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from mate_cli.errors import ConfigError

ORDER_VERSION = 1
"""Increases when the examples of steps change: a run cannot resume from a checkpoint of another order."""
WINDOW_STEPS = 16
"""Optimizer steps of an epoch whose examples are grouped by length together."""
MAX_GROUP = 8
"""Most examples of similar length that stay in one optimizer step: more pads less, fewer mixes more."""


def group_size(batch_size: int) -> int:
    """Return the largest divisor of the batch size up to `MAX_GROUP`: it is the same on every machine."""
    return max(size for size in range(1, MAX_GROUP + 1) if batch_size % size == 0)


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
        max_epochs: passes over the split, each of its complete steps; a fraction is allowed.
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
        limits.append(max(1, round(max_epochs * (examples // batch_size))))
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
    """Micro-batches of similar length; the examples of a step depend on the seed, the step and the batch size alone.

    An epoch is a permutation of all examples, in whole optimizer steps: it leaves out the last, incomplete one, other
    examples in each epoch. Groups of `group_size` examples of similar length are dealt to the steps of a window of
    `WINDOW_STEPS` steps, at random. A window never crosses the end of an epoch. A step is then sorted by length and
    cut into micro-batches, which its ranks take in turn.

    Args:
        lengths: tokens of each example [N], N at least the batch size.
        schedule: sizes of batches and of the run.
        seed: of the order.
        rank: index of this process among `schedule.ranks`.
        start: index of the first micro-batch of this rank that is yielded. A resumed run passes its own.
    """

    def __init__(
        self, lengths: Sequence[int] | np.ndarray, schedule: Schedule, seed: int, rank: int = 0, start: int = 0
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.schedule, self.seed, self.rank, self.start = schedule, seed, rank, start
        self._epoch: tuple[int, np.ndarray] | None = None
        self._window: tuple[tuple[int, int], np.ndarray] | None = None

    def __len__(self) -> int:
        return self.schedule.total_batches

    def __iter__(self) -> Iterator[list[Any]]:
        """Yield example indices, one list per micro-batch, from `start` on."""
        first, begun = divmod(self.start, self.schedule.accumulate)
        for step in range(first, self.schedule.total_steps):
            yield from self._micro_batches(step)[self.rank :: self.schedule.ranks][begun if step == first else 0 :]

    def _micro_batches(self, step: int) -> list[list[Any]]:
        epoch, number = divmod(step, len(self.lengths) // self.schedule.batch_size)
        window, row = divmod(number, WINDOW_STEPS)
        if self._window is None or self._window[0] != (epoch, window):
            self._window = (epoch, window), self._deal(epoch, window)
        parts = self._window[1][row].reshape(-1, self.schedule.micro_batch)
        # Up in length and down again, so that ranks that take turns get about as many tokens each.
        half = len(parts) // 2
        return [self._name(epoch, part) for part in (*parts[:half], *parts[half:][::-1])]

    def _deal(self, epoch: int, window: int) -> np.ndarray:
        """Return the places in the permutation of an epoch of each step of a window, by length [steps, batch]."""
        size = self.schedule.batch_size
        steps = len(self.lengths) // size
        first, end = (size * min(number * WINDOW_STEPS, steps) for number in (window, window + 1))
        by_length = first + np.argsort(self.lengths[self._permutation(epoch)[first:end]], kind="stable")
        groups = np.arange(end - first).reshape(-1, group_size(size))
        dealt = np.random.default_rng((self.seed, 1, epoch, window)).permutation(groups)
        places: np.ndarray = by_length[np.sort(dealt.reshape(-1, size))]
        return places

    def _permutation(self, epoch: int) -> np.ndarray:
        """Return all examples as they come in an epoch; it is drawn once for all of its windows."""
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, np.random.default_rng((self.seed, 0, epoch)).permutation(len(self.lengths))
        return self._epoch[1]

    def _name(self, epoch: int, places: np.ndarray) -> list[Any]:
        """Return the examples of a micro-batch, which have these places in the permutation of an epoch."""
        return self._permutation(epoch)[places].tolist()


class PlacedBatches(LengthGroupedBatches):
    """The same micro-batches as pairs of an example and a number that no other draw of the run has."""

    def _name(self, epoch: int, places: np.ndarray) -> list[Any]:
        draws = epoch * len(self.lengths) + places
        return list(zip(super()._name(epoch, places), draws.tolist(), strict=True))
