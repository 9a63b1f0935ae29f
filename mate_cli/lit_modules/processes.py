"""Predictions of several processes, brought together."""

from itertools import chain, zip_longest
from typing import Protocol, TypeVar

import torch.distributed as dist


class HasExampleId(Protocol):
    """Anything about one example."""

    @property
    def example_id(self) -> str:
        """The example."""


T = TypeVar("T", bound=HasExampleId)


def gather_predictions(batches: list[list[T]]) -> list[T]:
    """Return the predictions of all processes, in the order in which one process would make them; all must call this.

    Each was given every n-th batch, and some of the last were given twice; each gets all predictions.
    """
    shares = [batches]
    if dist.is_available() and dist.is_initialized():
        shares = [[] for _ in range(dist.get_world_size())]
        dist.all_gather_object(shares, batches)
    in_turn = chain.from_iterable(zip_longest(*shares, fillvalue=[]))
    found: dict[str, T] = {}
    for prediction in chain.from_iterable(in_turn):
        found.setdefault(prediction.example_id, prediction)
    return list(found.values())
