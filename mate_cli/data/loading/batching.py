"""Order of the training examples and their division into micro-batches.

The order is a pure function of the seed, the step and `trainer.batch_size`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from mate_cli.errors import ConfigError

ORDER_VERSION = 1
"""Version of the order, to increase when the examples of steps change. A run cannot resume from another version."""
WINDOW_STEPS = 16
"""Number of optimizer steps whose examples are grouped by length together."""
MAX_GROUP = 8
"""Maximum number of examples of similar length in a group. Larger groups pad less, smaller groups mix better."""


def group_size(batch_size: int) -> int:
    """Return how many examples of similar length are grouped, a divisor of the batch size.

    The result is the largest divisor of the batch size up to `MAX_GROUP`, on any machine.
    """
    return max(size for size in range(1, MAX_GROUP + 1) if batch_size % size == 0)


@dataclass(frozen=True)
class Schedule:
    """Batch size and length of a run, and the division of each step into micro-batches.

    Args:
        batch_size: number of examples per optimizer step, on any machine.
        micro_batch: number of examples per forward pass. `micro_batch * ranks` divides `batch_size`.
        total_steps: number of optimizer steps of the whole run.
        ranks: world size. The ranks share the micro-batches of every step.
    """

    batch_size: int
    micro_batch: int
    total_steps: int
    ranks: int = 1

    @property
    def accumulate(self) -> int:
        """Number of forward passes per optimizer step on each rank."""
        return self.batch_size // self.micro_batch // self.ranks

    @property
    def total_batches(self) -> int:
        """Number of micro-batches that each rank processes in the whole run."""
        return self.total_steps * self.accumulate


def plan_schedule(
    examples: int, *, batch_size: int, micro_batch: int, max_epochs: float | None, max_steps: int | None, ranks: int = 1
) -> Schedule:
    """Compute the micro-batch size and the number of optimizer steps of a run.

    The examples of a step depend on `batch_size` only, so another machine does not change the experiment.

    Args:
        examples: number of examples in the training split.
        batch_size: number of examples per optimizer step.
        micro_batch: maximum number of examples per forward pass, rounded down to a divisor of the share of a rank.
        max_epochs: number of passes over the complete steps of the split, possibly a fraction. None is no limit.
        max_steps: number of optimizer steps. None is no limit. With two limits the smaller one applies.
        ranks: world size.

    Raises:
        ConfigError: the split is smaller than one batch, both limits are None, or the ranks get unequal shares.
    """
    check_shares(batch_size, ranks)
    if examples < batch_size:
        problem = f"the training split has {examples} usable examples, fewer than trainer.batch_size={batch_size}"
        hint = f"Set trainer.batch_size={max(ranks, examples - examples % ranks)} or less, or use more data"
        raise ConfigError(problem, remedy=hint)
    limits = [max_steps] if max_steps else []
    if max_epochs:
        limits.append(max(1, round(max_epochs * (examples // batch_size))))
    if not limits:
        raise ConfigError("the length of training is not limited", remedy="Set trainer.max_epochs or trainer.max_steps")
    share = batch_size // ranks
    divisors = [size for size in range(1, min(micro_batch, share) + 1) if share % size == 0]
    return Schedule(batch_size, divisors[-1], min(limits), ranks)


def check_shares(batch_size: int, ranks: int) -> None:
    """Check that `ranks` divides the batch size, so that all ranks get equal shares.

    Raises:
        ConfigError: `ranks` does not divide `batch_size`. The hint lists values that fit.
    """
    if batch_size % ranks:
        equal = ", ".join(str(number) for number in range(1, ranks) if batch_size % number == 0)
        next_multiple = -(-batch_size // ranks) * ranks
        problem = f"trainer.batch_size={batch_size} cannot be divided among {ranks} processes"
        hint = f"Set devices x nodes to one of {equal}, or set trainer.batch_size={next_multiple}"
        raise ConfigError(problem, where="hardware.devices", remedy=hint)


class LengthGroupedBatches(Sampler[list[Any]]):
    """Sampler of micro-batches with examples of similar length.

    The examples of a step depend on the seed, the step and the batch size only. An epoch is a permutation of all
    examples, in whole optimizer steps. The last, incomplete step is omitted, which skips other examples in each epoch.
    Groups of `group_size` examples of similar length are assigned at random to the steps of a window of `WINDOW_STEPS`
    steps. A window never crosses the end of an epoch. The examples of a step are then sorted by length and divided into
    micro-batches, which the ranks take in turn.

    Args:
        lengths: number of tokens of each example [N]. N is at least the batch size.
        schedule: sizes of batches and of the run.
        seed: seed of the order.
        rank: index of this process among `schedule.ranks`.
        start: index of the first micro-batch of this rank to yield. A resumed run passes its position.
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
        """Yield the indices of the examples in each micro-batch, from micro-batch `start` on."""
        first, begun = divmod(self.start, self.schedule.accumulate)
        for step in range(first, self.schedule.total_steps):
            yield from self._micro_batches(step)[self.rank :: self.schedule.ranks][begun if step == first else 0 :]

    def _micro_batches(self, step: int) -> list[list[Any]]:
        epoch, number = divmod(step, len(self.lengths) // self.schedule.batch_size)
        window, row = divmod(number, WINDOW_STEPS)
        if self._window is None or self._window[0] != (epoch, window):
            self._window = (epoch, window), self._deal(epoch, window)
        parts = self._window[1][row].reshape(-1, self.schedule.micro_batch)
        # Lengths increase, then decrease. Ranks that take micro-batches in turn then get similar numbers of tokens.
        half = len(parts) // 2
        return [self._name(epoch, part) for part in (*parts[:half], *parts[half:][::-1])]

    def _deal(self, epoch: int, window: int) -> np.ndarray:
        """Randomly divide the examples of a window of `WINDOW_STEPS` steps among these steps.

        Each step gets groups of examples of similar length.

        Returns:
            For each step, positions in the permutation of the epoch, by increasing length [steps, batch].
        """
        size = self.schedule.batch_size
        steps = len(self.lengths) // size
        first, end = (size * min(number * WINDOW_STEPS, steps) for number in (window, window + 1))
        by_length = first + np.argsort(self.lengths[self._permutation(epoch)[first:end]], kind="stable")
        groups = np.arange(end - first).reshape(-1, group_size(size))
        dealt = np.random.default_rng((self.seed, 1, epoch, window)).permutation(groups)
        positions: np.ndarray = by_length[np.sort(dealt.reshape(-1, size))]
        return positions

    def _permutation(self, epoch: int) -> np.ndarray:
        """Return the random order of all examples in an epoch. The last order is cached."""
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, np.random.default_rng((self.seed, 0, epoch)).permutation(len(self.lengths))
        return self._epoch[1]

    def _name(self, epoch: int, positions: np.ndarray) -> list[Any]:
        """Return the indices of the examples in a micro-batch, with which the dataset is indexed.

        `positions` are positions in the permutation of the epoch.
        """
        return self._permutation(epoch)[positions].tolist()


class PlacedBatches(LengthGroupedBatches):
    """Sampler like `LengthGroupedBatches` that also numbers samples, to seed augmentation.

    An entry is a pair of an example index and a number that is unique in the run. The number seeds data augmentation.
    """

    def _name(self, epoch: int, positions: np.ndarray) -> list[Any]:
        draws = epoch * len(self.lengths) + positions
        return list(zip(super()._name(epoch, positions), draws.tolist(), strict=True))
