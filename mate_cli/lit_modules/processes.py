"""Predictions of several processes, brought together."""

from collections.abc import Mapping
from itertools import chain, zip_longest
from typing import Protocol, TypeVar

import torch.distributed as dist
from torch import Tensor


class HasExampleId(Protocol):
    """Anything about one example."""

    @property
    def example_id(self) -> str:
        """The example."""


S = TypeVar("S")
T = TypeVar("T", bound=HasExampleId)


def gather_predictions(batches: list[list[T]]) -> list[T]:
    """Return the predictions of all processes, in the order in which one process would make them; all must call this.

    Each was given every n-th batch, and some of the last were given twice; each gets all predictions.
    """
    in_turn = chain.from_iterable(zip_longest(*_gather(batches), fillvalue=[]))
    predictions: dict[str, T] = {}
    for prediction in chain.from_iterable(in_turn):
        predictions.setdefault(prediction.example_id, prediction)
    return list(predictions.values())


def add_up(counts: Mapping[str, Tensor]) -> dict[str, list[int]]:
    """Return the sum of each of some counts over all processes; all must call this, with the same names."""
    shares = _gather({name: count.tolist() for name, count in counts.items()})
    return {name: [sum(column) for column in zip(*(share[name] for share in shares), strict=True)] for name in counts}


def _gather(share: S) -> list[S]:
    if not (dist.is_available() and dist.is_initialized()):
        return [share]
    shares = [share for _ in range(dist.get_world_size())]
    dist.all_gather_object(shares, share)
    return shares
