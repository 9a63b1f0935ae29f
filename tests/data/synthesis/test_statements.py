from collections import Counter
from math import sqrt

import numpy as np
import pytest
from golden import numbers
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.data.synthesis.statement_values import LESS, Filter, PartValues, compare_values, statement_number
from mate_cli.data.synthesis.statements import Grammar, synthesize, table_parts
from mate_cli.tables.table import Cell, Table

GOLDEN = numbers("tapas/g11_intermediate")
cases = pytest.mark.parametrize("table", ["t1", "t2"])
GRAMMAR = Grammar()


def make_table(header, rows):
    return Table("t", tuple(map(Cell, header)), tuple(tuple(map(Cell, row)) for row in rows))


def within_chance(hits, draws, share):
    """Whether a count is within 4.4 standard deviations of its expectation, which one in 100,000 is not."""
    return abs(hits - draws * share) <= 4.4 * sqrt(draws * share * (1 - share))


def golden_table(name):
    table = GOLDEN["tables"][name]
    return make_table(table["columns"], table["rows"])


def golden_cases(table):
    cases = [case for case in GOLDEN["synthetic"] if (case["table"], case["opposite"]) == (table, False)]
    assert len(cases) == 25
    return cases


def made_of(tables, seeds, grammar=GRAMMAR):
    """Statements about the parts of tables, each behind its part."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        yield from (
            (part, made)
            for table in tables
            for _, part in table_parts(table)
            for made in synthesize(part, rng, grammar)
        )


@cases
def test_statements_are_the_references_word_for_word(table):
    grammar = Grammar(count_share=0.2, blanks=True)
    for case in golden_cases(table):
        made = synthesize(golden_table(table), np.random.RandomState(case["seed"]), grammar)
        assert made == [(it["text"], it["label"]) for it in case["statements"]]


@pytest.mark.long
def test_each_label_and_the_share_of_counts_is_as_asked():
    table = golden_table("t2")
    for share in (0.02, 0.2):
        rng, grammar = np.random.default_rng(0), Grammar(count_share=share)
        made = [it for _ in range(1000) for it in synthesize(table, rng, grammar)]
        assert Counter(it.label for it in made) == {1: 1000, 0: 1000}
        assert within_chance(sum("the count" in it.text for it in made), 2000, share)


def test_sentences_have_no_holes_unless_asked_for():
    table = make_table(
        ["Name", "", "City", "City"], [["Ann", "1", "", "x"], ["", "2", "Rome", "y"], ["-", "3", "", "z"]]
    )
    plain = [it for _, it in made_of([table], range(30))]
    assert {it.label for it in plain} == {0, 1}
    assert not any("  " in f" {it.text} " or "City" in it.text or " - " in f" {it.text} " for it in plain)
    assert any("  " in f" {it.text} " for _, it in made_of([table], range(30), Grammar(blanks=True)))


@pytest.mark.parametrize(
    ("number", "text"), [(1.01, "1.01"), (1.001, "1.00"), (1.511, "1.51"), (1.0, "1"), (0.1 + 0.2 + 0.7, "1")]
)
def test_numbers_are_written_with_two_decimals_or_none(number, text):
    assert statement_number(number) == text


@pytest.mark.parametrize(
    ("left", "right", "comparator", "holds"),
    [
        ({"1"}, {"2"}, "is greater than", False),
        ({"1"}, {"2"}, "is less than", True),
        ({"a"}, {"a"}, "is", True),
        ({"a"}, {"b"}, "is greater than", None),
        ({"1", "2"}, {"2", "3"}, "is less than", False),
        ({"3", "4"}, {"1", "2"}, "is greater than", True),
        ({"1.0"}, {"1"}, "is", False),
        ({"nan"}, {"1"}, "is less than", None),
    ],
)
def test_comparisons_hold_for_all_pairs_of_numbers(left, right, comparator, holds):
    assert compare_values(frozenset(left), frozenset(right), comparator) is holds


def test_texts_are_neither_less_nor_greater():
    values, clause = PartValues(make_table(["n", "m"], [["1", "a"], ["x", "b"], ["3", "c"]])), Filter(0, LESS, "2")
    assert [values.filter_rows(rows, clause) for rows in (0b101, 0b111)] == [0b001, None]


@given(st.integers(1, 60), st.integers(1, 120))
def test_parts_are_whole_and_small(columns, rows):
    table = make_table(["x"] * columns, [[str(row)] * columns for row in range(rows)])
    parts = list(table_parts(table))
    assert all(len(part.rows) * columns <= 50 and len(part.rows) >= 2 for _, part in parts)
    assert all(part.rows == table.rows[begin : begin + len(part.rows)] for begin, part in parts)
    kept = [row for begin, part in parts for row in range(begin, begin + len(part.rows))]
    assert kept == sorted(set(kept))
    if 2 <= columns <= 12 and rows >= 2:
        assert len(kept) == rows, "halves have at least two rows"
    if columns < 2 or columns > 50 or rows < 2:
        assert not parts


def test_halves_are_cut_where_the_reference_cuts_them():
    table = make_table(["x"] * 5, [["v"] * 5] * 23)
    assert [(begin, len(part.rows)) for begin, part in table_parts(table)] == [(0, 5), (5, 6), (11, 6), (17, 6)]
