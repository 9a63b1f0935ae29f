"""Calibration: what a network's confidence is worth, learnt from answers that are known to be right or wrong."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mate_cli.errors import DataError

CALIBRATION = "calibration.json"
"""File with the calibration of confidences, fitted on the development split."""
PRIOR = 2
"""Answers as good as all that are added to every step of the curve, so that a few do not make it certain."""
RELIABLE_ANSWERS = 30
"""Number of answers below which a calibration is called unreliable."""
BINS = 10
FOLDS = 5


@dataclass(frozen=True)
class Calibration:
    """Turns a confidence into the share of answers like it that are right.

    Args:
        knots: (confidence, share), both increasing; between them it is a straight line, outside it is level.
        answers: how many it was fitted to.
        accuracy: of these.
        error_before: the expected calibration error of the confidences as they were.
        error_after: the same once calibrated, each fifth of the answers by what the others teach.
    """

    knots: tuple[tuple[float, float], ...]
    answers: int
    accuracy: float
    error_before: float
    error_after: float

    def __call__(self, confidence: float) -> float:
        """Return the calibrated confidence, from 0 to 1."""
        return _interpolate(self.knots, confidence)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Calibration:
        """Undo `to_json`.

        Raises:
            DataError: these are no such values.
        """
        try:
            knots = tuple((float(confidence), float(share)) for confidence, share in values["knots"])
            if not knots:
                raise ValueError("it has no points")
            return cls(knots, *(values[name] for name in ("answers", "accuracy", "error_before", "error_after")))
        except Exception as error:  # the values may be those of any file
            raise DataError(
                f"a calibration cannot be read: {error}", remedy="Evaluate the run again to write a new one"
            ) from error


def fit_calibration(confidences: Sequence[float], right: Sequence[bool]) -> Calibration:
    """Learn a calibration that never ranks answers otherwise than their confidences do.

    Isotonic regression, drawn towards the accuracy of all: confidences of right and of wrong answers may lie close
    together and far from others, as those of looked-up and of computed ones do, which no curve of two parameters can
    follow. Where confidence tells nothing, every answer gets the accuracy of all.

    Args:
        confidences: from 0 to 1, one per answer; what is no number counts as 0.
        right: whether that answer is right.
    """
    confidences = [0.0 if math.isnan(confidence) else min(max(confidence, 0.0), 1.0) for confidence in confidences]
    pairs = list(zip(confidences, right, strict=True))
    return Calibration(
        _fit(pairs),
        len(pairs),
        sum(right) / len(pairs),
        expected_calibration_error(confidences, right),
        expected_calibration_error(*zip(*_cross_calibrate(pairs), strict=True)),
    )


def expected_calibration_error(confidences: Sequence[float], right: Sequence[bool]) -> float:
    """Give the mean difference between confidence and accuracy over ten equal ranges of confidence, by answers in each.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", equation 3.
    """
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for confidence, is_right in zip(confidences, right, strict=True):
        bins[min(BINS - 1, int(confidence * BINS))].append((confidence, is_right))
    gaps = (abs(sum(confidence - is_right for confidence, is_right in pairs)) for pairs in bins)
    return sum(gaps) / max(1, len(confidences))


def _interpolate(knots: Sequence[tuple[float, float]], confidence: float) -> float:
    place = 0 if math.isnan(confidence) else bisect_right(knots, confidence, key=lambda knot: knot[0])
    if place in (0, len(knots)):
        return knots[max(0, place - 1)][1]
    (left, low), (right, high) = knots[place - 1 : place + 1]
    return low + (high - low) * (confidence - left) / (right - left)


def _fit(pairs: Sequence[tuple[float, bool]]) -> tuple[tuple[float, float], ...]:
    from sklearn.isotonic import IsotonicRegression

    total = (sum(right for _, right in pairs) + 1) / (len(pairs) + 2)
    if len({right for _, right in pairs}) < 2:
        return ((0.5, total),)
    confidences, right = zip(*pairs, strict=True)
    steps = IsotonicRegression().fit_transform(confidences, [float(is_right) for is_right in right])
    sizes = Counter(steps.tolist())
    # A few equal answers prove little: each step gets PRIOR answers that are as good as all.
    shares = [(step * sizes[step] + PRIOR * total) / (sizes[step] + PRIOR) for step in steps.tolist()]
    curve = IsotonicRegression().fit(confidences, shares)
    return tuple(zip(curve.X_thresholds_.tolist(), curve.y_thresholds_.tolist(), strict=True))


def _cross_calibrate(pairs: Sequence[tuple[float, bool]]) -> Iterator[tuple[float, bool]]:
    """Yield each answer calibrated by the other folds; every fifth answer is one fold."""
    for fold in range(FOLDS):
        held_out = pairs[fold::FOLDS]
        others = [pair for place, pair in enumerate(pairs) if place % FOLDS != fold] or pairs
        knots = _fit(others) if held_out else ()
        yield from ((_interpolate(knots, confidence), right) for confidence, right in held_out)
