"""Mean and spread of a number over the seeds of one configuration."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

LARGEST = 1e100


@dataclass(frozen=True)
class Summary:
    """What repeated runs say about one number.

    Args:
        mean: arithmetic mean of the finite values.
        deviation: sample standard deviation (divisor n - 1), None for a single value.
        count: how many finite values there are.
        low: the smallest value.
        high: the largest value.
        skipped: how many values were left out because they are NaN or infinite.
    """

    mean: float
    deviation: float | None
    count: int
    low: float
    high: float
    skipped: int = 0


def is_finite(value: float) -> bool:
    """Says whether a value can be reckoned with: neither NaN nor infinite, and its square no overflow."""
    return math.isfinite(value) and abs(value) < LARGEST


def summarize(values: Iterable[float]) -> Summary | None:
    """Summarises values, leaving NaN and infinities out; None when nothing is left."""
    everything = list(values)
    finite = [value for value in everything if is_finite(value)]
    if not finite:
        return None
    mean = math.fsum(finite) / len(finite)
    return Summary(
        mean=mean,
        deviation=sample_deviation(finite, mean),
        count=len(finite),
        low=min(finite),
        high=max(finite),
        skipped=len(everything) - len(finite),
    )


def sample_deviation(values: list[float], mean: float) -> float | None:
    """Returns the standard deviation of a sample around its mean, None below two values."""
    if len(values) < 2:
        return None
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
