"""Rows are chosen by the words and numbers they share with a question, and by the values that it compares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.tables.values.column_format import format_of
from mate_cli.tokenization.fitting.row_selection import RowIndex, fit_rows, matching_shares, question_terms

HEADER = ("region", "month", "sales", "note")
ROWS = [
    ("north", "march", "1,204", ""),
    ("south", "march", "870", "closed in 2012"),
    ("south", "april", "$1,310.50", ""),
    ("west", "may", "n/a", "regional office"),
    ("south", "march", "905", ""),
]
DATED = [*ROWS, ("east", "2024-05-07", "3", ""), ("east", "2023-06-07", "4", "")]


def choice(question, rows=ROWS):
    return RowIndex(HEADER, written(rows), [question, "another question about west"], rows).choose(question)


def written(rows):
    return [format_of(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize(
    ("question", "first", "matching"),
    [
        ("what did the south sell in march?", [1, 4], 4),
        ("who sold 1204?", [0], 1),
        ("who sold 1310.5?", [2], 1),
        ("what happened in 2012", [1], 1),
        ("when were regions closed?", [1], 1),
        ("what did the west sell in may 2024?", [3, 5], 2),
        ("who sold on 2024-05-07?", [5], 1),
        ("nothing of this", [0, 1, 2, 3, 4], 0),
    ],
)
def test_rows_that_share_words_and_numbers_come_first(question, first, matching):
    rows = DATED if "2024" in question else ROWS
    found = choice(question, rows)
    assert found.order[: len(first)].tolist() == first
    assert found.match_count == matching
    assert sorted(found.order.tolist()) == list(range(len(rows)))


@pytest.mark.parametrize(
    ("question", "order", "extreme"),
    [
        ("what were the highest sales?", [2, 0, 4, 1, 3], "greatest sales"),
        ("which sales were the lowest?", [1, 4, 0, 2, 3], "least sales"),
        ("the highest sales of the south", [2, 4, 1, 0, 3], "greatest sales"),
        ("the highest note", [0, 1, 2, 3, 4], ""),
    ],
)
def test_of_equal_rows_the_greatest_or_least_come_first(question, order, extreme):
    found = choice(question)
    assert (found.order.tolist(), found.extreme) == (order, extreme)


def test_what_was_found_is_named_as_it_was_asked():
    assert choice("which souths closed in 2012 or 1999?").terms == ("souths", "closed", "2012")


def test_numbers_in_words_and_with_separators_are_numbers():
    assert set(question_terms("who sold twelve or 1,204.50 of them?")) == {"sold", "twelve", "12", "1204.5", "them"}


def test_numbers_with_decimal_commas_are_found_as_questions_write_them():
    rows = [("north", "1.204,50"), ("south", "12,75")]
    assert (
        RowIndex(("region", "sales"), written(rows), ["who sold 1204.5?"], rows).choose("who sold 1204.5?").match_count
    )


def test_columns_match_where_their_cells_do():
    shares = matching_shares("what did the south sell in may 2024, was it 3?", [DATED[1], DATED[5]])
    assert shares.tolist() == [0.5, 0.5, 0.5, 0]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30), st.integers(0, 100), st.integers(1, 10))
def test_rows_fit_the_budget_and_the_best_are_taken(costs, budget, most):
    order = list(range(len(costs)))[::-1]
    taken = fit_rows(order, costs, budget, most)
    assert taken == sorted(order[: len(taken)])
    assert 1 <= len(taken) <= most
    assert len(taken) == 1 or sum(costs[: len(taken)]) <= budget
    full = len(taken) in (most, len(costs))
    assert full or sum(costs[: len(taken) + 1]) > budget


@given(st.lists(st.sampled_from(["north march", "south", "", "7"]), min_size=1, max_size=40))
def test_every_row_is_ranked_once_and_matching_ones_first(texts):
    index = RowIndex(("a",), [format_of(texts)], ["march in the north, 7"], [(text,) for text in texts])
    found = index.choose("march in the north, 7")
    assert sorted(found.order.tolist()) == list(range(len(texts)))
    matching = [texts[place] in ("north march", "7") for place in found.order]
    # words in nearly all rows tell nothing apart, so matching rows may also be all alike
    assert found.match_count in (0, sum(matching)) or found.match_count == sum(matching[: found.match_count])
    assert all(matching[: found.match_count])
