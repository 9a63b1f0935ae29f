import pytest

from mate_cli.data.baselines import (
    ColumnRule,
    Guess,
    best_column_rule,
    majority_label,
    most_frequent_column,
    tfidf_cell,
    tfidf_cell_ranking,
)
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table


def table_of(*rows):
    return Table("t", tuple(Cell("h") for _ in rows[0]), tuple(tuple(Cell(text) for text in row) for row in rows))


TABLE = table_of(("paris", "1"), ("rome", "2"), ("oslo", "3"))
NARROW = table_of(("x",))


def asked(question, *cells, table=TABLE, label=None):
    return TableExample(question, question, table, Answer((), cells, label=label))


FIRST, ALL, LAST = [(0, 1)], [(0, 1), (1, 1), (2, 1)], [(2, 1)]


@pytest.mark.parametrize(
    ("answers", "rule"),
    [
        ([FIRST, FIRST, ALL, [(1, 0)]], ColumnRule(1, "first")),
        ([FIRST, ALL, ALL, [(0, 0)]], ColumnRule(1, "all")),
        ([LAST, LAST, FIRST], ColumnRule(1, "last")),
        ([[(0, 0)], FIRST], ColumnRule(0, "first")),
        ([[(1, 1)], [(0, 0), (0, 1)], []], ColumnRule(0, "first")),
    ],
)
def test_the_column_and_its_rows_are_learnt(answers, rule):
    assert best_column_rule([asked("q", *cells) for cells in answers]) == rule


def test_the_same_cells_are_guessed_everywhere():
    guesses = most_frequent_column([asked("q", *ALL)], {"a": asked("a"), "b": asked("b", table=NARROW)})
    assert guesses == {"a": Guess(tuple(ALL)), "b": Guess(((0, 0),))}


def test_a_table_without_rows():
    empty = Table("t", (Cell("h"),), ())
    assert [ColumnRule(0, rows)(empty) for rows in ("first", "last", "all")] == [(), (), ()]
    assert tfidf_cell({"a": asked("a", table=empty)}) == {"a": Guess(())}


def test_the_nearest_cell():
    examples = {text: asked(text) for text in ("where is rome", "oslo", "nowhere")} | {"n": asked("n", table=NARROW)}
    guesses = tfidf_cell(examples)
    assert {name: guess.cells for name, guess in guesses.items()} == {
        "where is rome": ((1, 0),),
        "oslo": ((2, 0),),
        "nowhere": ((0, 0),),
        "n": ((0, 0),),
    }
    for name, example in examples.items():
        assert guesses[name].cells == tuple(tfidf_cell_ranking(example.table, example.question)[:1])


def test_the_commonest_label():
    statements = [asked("s", label=label) for label in (0, 1, 0, None)]
    assert majority_label(statements) == 0
    assert majority_label(statements[:2]) == 1
    assert majority_label([]) == 1
