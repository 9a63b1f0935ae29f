"""Center (median or mean) and dispersion of a number over the seeds of a configuration."""

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
"""Names of the number before ±, for each statistic."""
MAX_VALUE = 1e100
ROUNDING = 1e-12


@dataclass(frozen=True)
class Summary:
    """Summary statistics of one number, such as a metric, over repeated runs (seeds).

    Args:
        mean: arithmetic mean of the finite values.
        deviation: sample standard deviation (divisor n - 1), None for a single value.
        median: median of the finite values, interpolated for an even count.
        half_range: half the interquartile range, with linearly interpolated quartiles. None for a single value.
        count: number of finite values.
        low: smallest finite value.
        high: largest finite value.
        skipped: number of values that were skipped because they are NaN or infinite.
        statistic: statistic of `center` and `spread`. `median`: median and half range, `mean`: mean and deviation,
            `median_dev`: value of the run with the median dev score and half range.
        chosen: value of the run with the median dev score, None unless `statistic` is `median_dev`.
        questions: number of questions of a share. None if the number is not a share, or the count is unknown.
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
        """The center of the summary: median, mean, or value of the run with the median dev score."""
        if self.chosen is not None:
            return self.chosen
        return self.mean if self.statistic == "mean" else self.median

    @property
    def spread(self) -> float | None:
        """Dispersion of the runs: standard deviation or half range. None for a single run."""
        return self.deviation if self.statistic == "mean" else self.half_range

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % confidence interval of the score, which depends on the number of questions.

        The value is None if the number is not a share.
        """
        if not self.questions or not 0 <= self.center <= 1:
            return None
        return wilson_interval(self.center, self.questions)

    def is_close(self, other: Summary) -> bool:
        """Return whether another score is so near that sampling noise may explain the difference.

        The other score then differs by at most the spread or the sampling noise.

        The sampling noise is that of the questions. The test assumes independent questions although both summaries may
        share them, so it errs towards True.

        Source: Newcombe 1998, "Interval estimation for the difference between independent proportions", method 10.
        """
        distance = abs(self.center - other.center)
        if distance <= (self.spread or 0.0) + ROUNDING:
            return True
        if (interval := self.interval) is None or (other_interval := other.interval) is None:
            return False
        (_, low), (high, _) = (other_interval, interval) if self.center > other.center else (interval, other_interval)
        lower, upper = sorted((self.center, other.center))
        return distance <= math.hypot(low - lower, upper - high)


def wilson_interval(share: float, questions: float) -> tuple[float, float]:
    """Compute the 95 % confidence interval of the share of correct answers.

    If scores per question are between 0 and 1, as with F1, the exact interval is at most as wide.

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference", for binary outcomes
    (each question is correct or incorrect).

    Args:
        share: mean score, from 0 to 1.
        questions: number of independent questions.
    """
    z2 = NormalDist().inv_cdf(0.975) ** 2 / questions
    middle = (share + z2 / 2) / (1 + z2)
    half = math.sqrt(z2 * share * (1 - share) + z2 * z2 / 4) / (1 + z2)
    return max(0.0, middle - half), min(1.0, middle + half)


def is_finite(value: float) -> bool:
    """Return whether a number is finite and so small that its square does not overflow."""
    return math.isfinite(value) and abs(value) < MAX_VALUE


def summarize(
    values: Iterable[float], statistic: Statistic = "median", *, questions: int | None = None
) -> Summary | None:
    """Summarize the finite values of repeated runs, or return None without a finite value.

    Args:
        values: values of repeated runs.
        statistic: see `Summary`.
        questions: number of questions of a share, None for other numbers.
    """
    all_values = list(values)
    finite = [value for value in all_values if is_finite(value)]
    if not finite:
        return None
    repeated = len(finite) > 1
    # Source: the error margin of the TAPAS and MATE papers, which do not state how they interpolate quartiles.
    lower, _, upper = quantiles(finite, n=4, method="inclusive") if repeated else (0.0, 0.0, 0.0)
    return Summary(
        mean=math.fsum(finite) / len(finite),
        deviation=stdev(finite) if repeated else None,
        median=median(finite),
        half_range=(upper - lower) / 2 if repeated else None,
        count=len(finite),
        low=min(finite),
        high=max(finite),
        skipped=len(all_values) - len(finite),
        statistic=statistic,
        questions=questions,
    )
