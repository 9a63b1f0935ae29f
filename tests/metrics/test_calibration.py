import json
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.errors import DataError
from mate_cli.metrics.calibration import Calibration, expected_calibration_error, fit_calibration

WRITTEN = {"knots": [[0, 0], [1, 1]], "answers": 9, "accuracy": 0.5, "error_before": 0.1, "error_after": 0.1}
answers = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30)


def overconfident(count, seed=0):
    """Answers that are right half as often as their confidence says."""
    chance = random.Random(seed)
    confidences = [chance.random() for _ in range(count)]
    return confidences, [chance.random() < confidence / 2 for confidence in confidences]


@pytest.mark.parametrize("count", [800, 3000])
def test_what_is_half_as_good_as_it_says_is_found_out(count):
    found = fit_calibration(*overconfident(count))
    assert found.error_before == pytest.approx(0.25, abs=0.04)
    assert found.error_after < 0.06
    for confidence in (0.2, 0.5, 0.8):
        assert found(confidence) == pytest.approx(confidence / 2, abs=0.1)
    fresh, right = overconfident(2000, seed=1)
    assert expected_calibration_error([found(confidence) for confidence in fresh], right) < 0.06


@given(answers)
def test_answers_keep_their_order_and_their_bounds_also_when_written(pairs):
    found = fit_calibration(*zip(*pairs, strict=True))
    confidences = sorted(confidence for confidence, _ in pairs)
    shares = [found(confidence) for confidence in [0.0, *confidences, 1.0]]
    assert all(0 <= low <= high + 1e-9 <= 1 + 1e-9 for low, high in pairwise(shares))
    assert Calibration.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize("values", [{}, {**WRITTEN, "knots": []}, {**WRITTEN, "knots": 1}, {"knots": [[0, 1]]}])
def test_damaged_values_are_refused(values):
    with pytest.raises(DataError, match="calibration"):
        Calibration.from_json(values)


def test_a_file_with_further_entries_is_read():
    assert Calibration.from_json({**WRITTEN, "thresholds": []})(0.5) == 0.5


@pytest.mark.parametrize(("right", "share"), [([True] * 8, 0.9), ([False] * 8, 0.1)])
def test_nothing_is_certain_after_a_few_answers(right, share):
    assert fit_calibration([0.3] * 8, right)(0.99) == pytest.approx(share)


def test_confidence_that_misleads_counts_for_nothing():
    found = fit_calibration([0.9] * 10 + [0.1] * 10, [False] * 10 + [True] * 10)
    assert found(0.05) == found(0.95) == pytest.approx(0.5)


def test_what_is_no_number_is_worth_least():
    confidences, right = overconfident(100)
    found = fit_calibration(confidences, right)
    assert found(float("nan")) == found(0.0)
    assert fit_calibration([float("nan"), *confidences], [False, *right]).answers == 101


def test_the_error_is_the_mean_gap_in_ten_ranges():
    confidences, right = [0.95, 0.95, 0.15, 1.0], [True, False, False, True]
    wanted = (abs(0.95 * 2 + 1 - 2) + 0.15) / 4
    assert expected_calibration_error(confidences, right) == pytest.approx(wanted)
    assert expected_calibration_error([0.89, 0.91], [True, False]) == pytest.approx((0.11 + 0.91) / 2)
    assert expected_calibration_error([], []) == 0


def test_a_few_answers_tell_right_ones_from_wrong_ones_wherever_their_confidences_lie():
    looked_up, totals, counts = [0.96] * 12, [0.126, 0.123, 0.139, 0.129, 0.136, 0.126], [0.113, 0.115, 0.114]
    found = fit_calibration([*looked_up, *totals, *counts], [True] * 18 + [False] * 3)
    assert found(0.96) > 0.9
    assert found(0.13) > 0.9
    assert found(0.112) < 0.5
    assert 0 < found(0.0) <= found(1.0) < 1, "nothing is certain after a few answers"
