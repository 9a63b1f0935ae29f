"""The middle and the spread of a number over the seeds of one configuration."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist, median, quantiles, stdev
from typing import Literal

Statistic = Literal["median", "mean", "median_dev"]
SPREADS: dict[Statistic, str] = {
    **dict.fromkeys(("median", "median_dev"), "half the interquartile range"),
    "mean": "sample standard deviation",
}
CENTERS: dict[Statistic, str] = {"median": "median", "mean": "mean", "median_dev": "run with the median dev score"}
"""Names of the number before ±."""
MAX_VALUE = 1e100
ROUNDING = 1e-12


@dataclass(frozen=True)
class Summary:
    """The summary of one number over repeated runs.

    Args:
        mean: arithmetic mean of the finite values.
        deviation: sample standard deviation (divisor n - 1), None for a single value.
        median: the value in the middle, between the two in the middle of an even number.
        half_range: half the interquartile range, quartiles interpolated linearly; None for a single value.
        count: how many finite values there are.
        low: the smallest value.
        high: the largest value.
        skipped: how many values were left out because they are NaN or infinite.
        statistic: which pair stands for the values: median and half range, mean and deviation, or what the run with the
            median dev score has and the half range.
        chosen: what that run has; None where no run was chosen.
        questions: how many a share is of; None for what is no share, or where it is not known.
    """

    mean: float
    deviation: float | None
    median: float
    half_range: float | None
    count: int
    low: float
    high: float
    skipped: int = 0
    statistic: Statistic = "median"
    chosen: float | None = None
    questions: int | None = None

    @property
    def center(self) -> float:
        """The number that stands for all values."""
        if self.chosen is not None:
            return self.chosen
        return self.mean if self.statistic == "mean" else self.median

    @property
    def spread(self) -> float | None:
        """The number behind ±, None for a single value."""
        return self.deviation if self.statistic == "mean" else self.half_range

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval that the number of questions alone leaves a share; None for what is no share.

        Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference": each question is
        right or wrong; of a score between these, such as F1, it is at most as wide.
        """
        if not self.questions or not 0 <= self.center <= 1:
            return None
        z2 = NormalDist().inv_cdf(0.975) ** 2 / self.questions
        middle = (self.center + z2 / 2) / (1 + z2)
        half = math.sqrt(z2 * self.center * (1 - self.center) + z2 * z2 / 4) / (1 + z2)
        return max(0.0, middle - half), min(1.0, middle + half)

    def is_close(self, other: Summary) -> bool:
        """Say whether another lies within this one's own spread, or no further than chance among questions explains.

        Source: Newcombe 1998, "Interval estimation for the difference between independent proportions", method 10.
        That both were asked the same questions is not used, so it errs towards calling them close.
        """
        distance = abs(self.center - other.center)
        if distance <= (self.spread or 0.0) + ROUNDING:
            return True
        if (interval := self.interval) is None or (other_interval := other.interval) is None:
            return False
        (_, low), (high, _) = (other_interval, interval) if self.center > other.center else (interval, other_interval)
        lower, upper = sorted((self.center, other.center))
        return distance <= math.hypot(low - lower, upper - high)


def is_finite(value: float) -> bool:
    """Say whether a value can be reckoned with: neither NaN nor infinite, and its square no overflow."""
    return math.isfinite(value) and abs(value) < MAX_VALUE


def summarize(
    values: Iterable[float], statistic: Statistic = "median", *, questions: int | None = None
) -> Summary | None:
    """Summarise values, leaving NaN and infinities out; None when nothing is left."""
    everything = list(values)
    finite = [value for value in everything if is_finite(value)]
    if not finite:
        return None
    several = len(finite) > 1
    # Source: the error margin of the TAPAS and MATE papers; how they interpolate quartiles is not stated.
    lower, _, upper = quantiles(finite, n=4, method="inclusive") if several else (0.0, 0.0, 0.0)
    return Summary(
        mean=math.fsum(finite) / len(finite),
        deviation=stdev(finite) if several else None,
        median=median(finite),
        half_range=(upper - lower) / 2 if several else None,
        count=len(finite),
        low=min(finite),
        high=max(finite),
        skipped=len(everything) - len(finite),
        statistic=statistic,
        questions=questions,
    )
