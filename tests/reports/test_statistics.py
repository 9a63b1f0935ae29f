from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.reports.statistics import summarize

numbers = st.floats(-1e6, 1e6)


@given(st.lists(numbers, min_size=2, max_size=20))
def test_mean_and_sample_deviation_are_those_of_numpy(values):
    summary = summarize(values)
    assert summary.mean == pytest.approx(np.mean(values), rel=1e-9, abs=1e-6)
    assert summary.deviation == pytest.approx(np.std(values, ddof=1), rel=1e-6, abs=1e-6)
    assert (summary.count, summary.low, summary.high) == (len(values), min(values), max(values))


def test_one_value_has_no_deviation():
    assert summarize([0.25]).deviation is None


def test_values_that_are_no_numbers_are_left_out_and_counted():
    summary = summarize([0.5, math.nan, 0.7, math.inf, 1e308])
    assert (summary.mean, summary.count, summary.skipped) == (pytest.approx(0.6), 2, 3)
    assert summarize([math.nan]) is None
    assert summarize([]) is None
