"""Columns are read as if every cell was looked at."""

from hypothesis import given
from hypothesis import strategies as st

from mate_cli.tables.numbers import column_values, consolidate, numeric_values

CELLS = st.sampled_from(["7", "1,000", "-2.5", "3rd", "2012", "12 May 2001", "May", "x", "", "a b 7", "n/a", "twelve"])


@given(st.lists(CELLS, max_size=14))
def test_a_column_given_up_early_would_have_had_no_values(texts):
    assert column_values(texts) == consolidate([numeric_values(text) for text in texts])


def test_seven_of_ten_numbers_make_a_column_of_numbers():
    assert len(column_values([*"1234567", *"xyz"])) == 7
    assert column_values([*"123456", *"wxyz"]) == {}
