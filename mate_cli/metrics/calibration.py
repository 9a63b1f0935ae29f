"""Calibration of confidences, fitted on answers that are known to be correct or wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mate_cli.errors import DataError

CALIBRATION = "calibration.json"
"""File name of the calibration, which is fitted on the dev split."""
PRIOR = 2
"""Number of pseudo-answers with average accuracy added to every step of the curve, which smooths small steps."""
RELIABLE_ANSWERS = 30
"""Minimum number of answers. The record of a run calls a calibration that was fitted to fewer answers unreliable."""
BINS = 10
FOLDS = 5


@dataclass(frozen=True)
class Calibration:
    """Function from a model's confidence to the share of correct answers at this confidence.

    Args:
        knots: points (confidence, accuracy) of a piecewise linear curve, both increasing. The curve is constant outside
            of the points.
        answers: number of answers to which the calibration was fitted.
        accuracy: accuracy of these answers.
        error_before: expected calibration error of the uncalibrated confidences.
        error_after: expected calibration error of calibrated confidences, by 5-fold cross-validation.
    """

    knots: tuple[tuple[float, float], ...]
    answers: int
    accuracy: float
    error_before: float
    error_after: float

    def __call__(self, confidence: float) -> float:
        """Return the calibrated confidence (0 to 1) for a confidence of the model."""
        return _interpolate(self.knots, confidence)

    def to_json(self) -> dict[str, Any]:
        """Convert the calibration to JSON-serializable values, for `calibration.json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Calibration:
        """Restore a calibration from the values of `to_json`.

        Raises:
            DataError: the values are invalid.
        """
        try:
            knots = tuple((float(confidence), float(share)) for confidence, share in values["knots"])
            if not knots:
                raise ValueError("it has no points")
            return cls(knots, *(values[name] for name in ("answers", "accuracy", "error_before", "error_after")))
        # The values may come from an arbitrary file.
        except Exception as error:
            raise DataError(
                f"a calibration cannot be read: {error}", remedy="Evaluate the run again to write a new one"
            ) from error


def fit_calibration(confidences: Sequence[float], labels: Sequence[bool]) -> Calibration:
    """Fit a function from confidence to accuracy by isotonic regression.

    The function is smoothed towards the overall accuracy.

    A parametric curve with two parameters does not fit, because confidences form clusters, for example of looked-up
    and of computed answers. If the confidence is uninformative, every answer gets the overall accuracy.

    Args:
        confidences: confidence of each answer, from 0 to 1. NaN is treated as 0.
        labels: whether each answer is correct.
    """
    confidences = [0.0 if math.isnan(confidence) else min(max(confidence, 0.0), 1.0) for confidence in confidences]
    pairs = list(zip(confidences, labels, strict=True))
    return Calibration(
        _fit_curve(pairs),
        len(pairs),
        sum(labels) / len(pairs),
        expected_calibration_error(confidences, labels),
        expected_calibration_error(*zip(*_cross_calibrate(pairs), strict=True)),
    )


def expected_calibration_error(confidences: Sequence[float], labels: Sequence[bool]) -> float:
    """Compute the expected calibration error (ECE) with ten bins of confidence.

    The ECE is the mean absolute difference between confidence and accuracy.

    Bins are weighted by their number of answers.

    Args:
        confidences: confidence of each answer, from 0 to 1.
        labels: whether each answer is correct.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", equation 3.
    """
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for confidence, is_right in zip(confidences, labels, strict=True):
        bins[min(BINS - 1, int(confidence * BINS))].append((confidence, is_right))
    differences = (abs(sum(confidence - is_right for confidence, is_right in pairs)) for pairs in bins)
    return sum(differences) / max(1, len(confidences))


def _interpolate(knots: Sequence[tuple[float, float]], confidence: float) -> float:
    positions, shares = zip(*knots, strict=True)
    return float(np.interp(-math.inf if math.isnan(confidence) else confidence, positions, shares))


def _fit_curve(pairs: Sequence[tuple[float, bool]]) -> tuple[tuple[float, float], ...]:
    from sklearn.isotonic import IsotonicRegression

    total = (sum(labels for _, labels in pairs) + 1) / (len(pairs) + 2)
    if len({labels for _, labels in pairs}) < 2:
        return ((0.5, total),)
    confidences, labels = zip(*pairs, strict=True)
    steps = IsotonicRegression().fit_transform(confidences, [float(is_right) for is_right in labels])
    sizes = Counter(steps.tolist())
    # Steps with few answers are unreliable: add PRIOR pseudo-answers with the overall accuracy to each step.
    shares = [(step * sizes[step] + PRIOR * total) / (sizes[step] + PRIOR) for step in steps.tolist()]
    curve = IsotonicRegression().fit(confidences, shares)
    return tuple(zip(curve.X_thresholds_.tolist(), curve.y_thresholds_.tolist(), strict=True))


def _cross_calibrate(pairs: Sequence[tuple[float, bool]]) -> Iterator[tuple[float, bool]]:
    """Calibrate each confidence by cross-validation with five folds, to evaluate calibration.

    The curve of a fold is fitted on the other four folds.

    Args:
        pairs: confidence of each answer, and whether the answer is correct. Fold k has every fifth answer from k.

    Yields:
        The calibrated confidence of each answer, and whether the answer is correct.
    """
    for fold in range(FOLDS):
        held_out = pairs[fold::FOLDS]
        training_pairs = [pair for index, pair in enumerate(pairs) if index % FOLDS != fold] or pairs
        knots = _fit_curve(training_pairs) if held_out else ()
        yield from ((_interpolate(knots, confidence), is_right) for confidence, is_right in held_out)
