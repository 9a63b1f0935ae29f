from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.reports.compare.statistics import Statistic, summarize

numbers = st.floats(-1e6, 1e6)


@given(st.lists(numbers, min_size=2, max_size=20))
def test_the_summary_is_that_of_numpy(values):
    summary = summarize(values)
    assert summary.mean == pytest.approx(np.mean(values), rel=1e-9, abs=1e-6)
    assert summary.deviation == pytest.approx(np.std(values, ddof=1), rel=1e-6, abs=1e-6)
    assert (summary.count, summary.low, summary.high) == (len(values), min(values), max(values))
    low, middle, high = np.percentile(values, [25, 50, 75])
    assert summary.center == summary.median == pytest.approx(middle, rel=1e-9, abs=1e-6)
    assert summary.spread == summary.half_range == pytest.approx((high - low) / 2, rel=1e-6, abs=1e-6)


def test_the_statistic_chooses_what_stands_for_the_values():
    values = [0.1, 0.2, 0.9]
    assert (summarize(values).center, summarize(values).spread) == (0.2, pytest.approx(0.2))
    mean = summarize(values, "mean")
    assert (mean.center, mean.spread) == (pytest.approx(0.4), pytest.approx(np.std(values, ddof=1)))


def test_one_value_has_no_spread():
    for statistic in get_args(Statistic):
        assert (summarize([0.25], statistic).center, summarize([0.25], statistic).spread) == (0.25, None)


def test_values_that_are_no_numbers_are_left_out_and_counted():
    summary = summarize([0.5, math.nan, 0.7, math.inf, 1e308])
    assert (summary.mean, summary.count, summary.skipped) == (pytest.approx(0.6), 2, 3)
    assert summarize([math.nan]) is None
    assert summarize([]) is None
