"""Draw from sequences with a numpy generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")


def pick(rng: np.random.Generator, items: Sequence[Item]) -> Item:
    """One of some items, each as likely."""
    return items[int(rng.integers(len(items)))]


def shuffled(rng: np.random.Generator, items: Sequence[Item]) -> list[Item]:
    """The items in random order."""
    return [items[place] for place in rng.permutation(len(items))]
