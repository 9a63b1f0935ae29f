from collections import Counter

import numpy as np
import pytest
from golden import numbers
from hypothesis import given
from hypothesis import strategies as st
from statement_reader import StatementReader, within_chance

from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.data.synthesis.statement_values import compare_values, statement_number
from mate_cli.data.synthesis.statements import Grammar, synthesize, table_parts
from mate_cli.tables.table import Cell, Table

GOLDEN = numbers("tapas/g11_intermediate")
cases = pytest.mark.parametrize("table", ["t1", "t2"])
GRAMMAR = Grammar()


def make_table(header, rows):
    return Table("t", tuple(map(Cell, header)), tuple(tuple(map(Cell, row)) for row in rows))


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


@cases
def test_the_reader_confirms_the_labels_of_the_reference(table):
    for case in golden_cases(table):
        for said in case["statements"]:
            assert StatementReader(golden_table(table)).verdicts(said["text"]) == {said["label"]}


numbers = st.sampled_from(["7", "12", "2,000", "2000", "-3", "0.1", "0.25", "1.5", "1e3"])
words = st.sampled_from(["red", "blue", "a is b", "x, y", "when", "is", "and", "", "-", "n/a", "Red"])


@st.composite
def statement_tables(draw):
    names = draw(st.lists(st.sampled_from(["Team", "Points", "Year", "is", "the total", ""]), min_size=2, max_size=4))
    columns = [draw(st.sampled_from([numbers, words, numbers | words])) for _ in names]
    rows = draw(st.lists(st.tuples(*columns), min_size=2, max_size=7))
    return make_table(names, rows)


@given(statement_tables(), st.integers(0, 9), st.booleans())
def test_every_label_agrees_with_the_reader(table, seed, blanks):
    grammar = Grammar(count_share=0.2, blanks=blanks, attempts=5)
    for made in synthesize(table, np.random.default_rng(seed), grammar):
        assert made.label in StatementReader(table).verdicts(made.text), made.text


@pytest.mark.long
def test_labels_of_thousands_of_statements_agree_with_the_reader_and_are_clear():
    tables = {example.table.table_id: example.table for example in Sample().examples("train")}
    made = list(made_of(tables.values(), range(20)))
    assert len(made) > 2000
    assert all(StatementReader(part).verdicts(it.text) == {it.label} for part, it in made)


@pytest.mark.long
def test_each_label_and_the_share_of_counts_is_as_asked():
    table = golden_table("t2")
    for share in (0.02, 0.2):
        rng, grammar = np.random.default_rng(0), Grammar(count_share=share)
        made = [it for _ in range(1000) for it in synthesize(table, rng, grammar)]
        assert Counter(it.label for it in made) == {1: 1000, 0: 1000}
        assert within_chance(sum("the count" in it.text for it in made), 2000, share)


@pytest.mark.long
def test_comparators_and_constants_have_their_shares():
    rng, table = np.random.default_rng(1), golden_table("t2")
    made = [it.text for _ in range(1000) for it in synthesize(table, rng, Grammar(count_share=1))]
    reader = StatementReader(table)
    sides: Counter[str] = Counter()
    comparators: Counter[str] = Counter()
    for text in made:
        (left, comparator, right) = next(iter(reader.readings(text)))
        sides["left" if isinstance(left, str) else "right" if isinstance(right, str) else "none"] += 1
        comparators[comparator] += 1
    assert within_chance(sides["left"], 2000, 0.5)
    assert within_chance(sides["right"], 2000, 0.25)
    unequal = comparators["is greater than"] + comparators["is less than"]
    assert within_chance(comparators["is less than"], unequal, 0.5), "both sides are drawn in the same way"
    assert comparators["is"] > 200


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
