from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.data.perturbation import LENGTHS, PERTURBATIONS, PerturbedDataset, count_tokens, perturb_examples
from mate_cli.errors import DataError
from mate_cli.tables.denotation import denotation_of
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table


def build_table(rows, header=("Player name", "Country", "Points"), name="t"):
    return Table(name, tuple(map(Cell, header)), tuple(tuple(map(Cell, row)) for row in rows))


PEOPLE = build_table([(f"Person {chr(65 + n)}", f"Land {n % 4}", f"{12_345 + 7 * n}") for n in range(12)])
OTHER = build_table([("Oak", "tall", "99,120"), ("Elm", "low", "7")], ("Tree", "Size", "Leaves"), "other")


def ask(question, cells=((3, 2),), table=PEOPLE, **options):
    texts = tuple(table.rows[row][column].text for row, column in cells)
    return TableExample(question, question, table, Answer(texts, cells, **options))


CASES = [ask("Which value belongs to Person D?"), ask("What did Person F score?", ((5, 2),), aggregation="sum")]
FOREST = ask("Which trees are tall?", ((0, 0),), OTHER)


@pytest.mark.parametrize("name", PERTURBATIONS)
@pytest.mark.parametrize("seed", [1, 2])
def test_gold_cells_keep_their_text_and_the_answer_its_denotation(name, seed):
    changed, reasons = perturb_examples([*CASES, FOREST], name, seed)
    assert changed
    assert {*changed} | {*reasons} == {example.example_id for example in (*CASES, FOREST)}
    for old in (*CASES, FOREST):
        if new := changed.get(old.example_id):
            (gold, table), (moved, new_table) = ((e.answer.coordinates, e.table) for e in (old, new))
            assert [table.rows[r][c].text for r, c in gold] == [new_table.rows[r][c].text for r, c in moved]
            operation = old.answer.aggregation or "none"
            assert denotation_of(operation, gold, table) == denotation_of(operation, moved, new_table)
            assert (new.answer.texts, {len(row) for row in new_table.rows}) == (
                old.answer.texts,
                {len(new_table.header)},
            )
    assert perturb_examples([*CASES, FOREST], name, seed)[0] == changed


cells = st.text(alphabet="ab1, ", max_size=4)


@given(
    st.integers(0, 9),
    st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1)),
)
def test_a_permuted_table_has_the_same_rows_and_columns(seed, rows):
    table = build_table(rows, [f"h{column}" for column in range(len(rows[0]))])
    gold = ((len(rows) - 1, 0),)
    for name in ("rows", "columns"):
        for new in perturb_examples([ask("Which?", gold, table)], name, seed)[0].values():
            order = [[cell.text for cell in new.table.header].index(cell.text) for cell in table.header]
            found = Counter(tuple(row[column] for column in order) for row in new.table.rows)
            assert found == Counter(table.rows)
            row, column = new.answer.coordinates[0]
            assert new.table.rows[row][column].text == rows[-1][0]


@pytest.mark.parametrize(
    ("name", "question", "reason"),
    [
        ("rows", "Who is in the first row?", "about the order of rows"),
        ("rows", "Who came after Person A?", "about the order of rows"),
        ("columns", "What is in the left column?", "about columns"),
        ("extra_rows", "How many players are from Land 1?", "about the order or number of rows"),
        ("length_512", "Who has the highest score?", "about the order or number of rows"),
        ("blank_headers", "How many points has Person A?", "that it cannot change"),
        ("numbers", "Which tree?", "that it cannot change"),
    ],
)
def test_questions_whose_answer_may_change_are_excluded(name, question, reason):
    table = OTHER if "tree" in question else PEOPLE
    gold = ((0, 2),) if table is OTHER else ((3, 0),)
    changed, reasons = perturb_examples([ask(question, gold, table)], name, 1)
    assert (changed, reasons) == ({}, {question: reason})


def test_added_rows_and_columns_have_no_answer_and_nothing_that_a_question_mentions():
    examples = [ask("Which value belongs to Person D?"), FOREST]
    for name in ("extra_rows", "extra_columns", "length_512"):
        new = perturb_examples(examples, name, 3)[0][examples[0].example_id]
        texts = Counter(cell.text for _, _, cell in new.table.cells())
        assert texts["Person D"] == texts[PEOPLE.rows[3][2].text] == 1
        assert len(new.table.rows) + len(new.table.header) > len(PEOPLE.rows) + len(PEOPLE.header)


def test_a_line_with_the_answer_is_never_added():
    answer = PEOPLE.rows[3][2].text
    source = build_table([(answer, f"about {answer}")], (answer, "Other"), "source")
    examples = [CASES[0], ask("Which trees are tall?", ((0, 0),), source)]
    for name in ("extra_rows", "extra_columns"):
        assert perturb_examples(examples, name, 1)[1][CASES[0].example_id] == "that it cannot change"


@pytest.mark.parametrize("tokens", LENGTHS)
def test_tables_grow_to_a_length_by_rows_of_the_same_kind(tokens):
    (new,) = perturb_examples(CASES[:1], f"length_{tokens}", 1)[0].values()
    size = count_tokens([*new.table.header, *(cell for _, _, cell in new.table.cells())])
    assert tokens - 20 < size <= tokens
    columns = [{row[column].text for row in table.rows} for table in (PEOPLE, new.table) for column in range(3)]
    assert columns[:3] == columns[3:]
    kept = [row for row in new.table.rows if row in PEOPLE.rows]
    assert [row for row in kept if row == PEOPLE.rows[3]] == [PEOPLE.rows[3]]


def test_a_conversation_is_excluded_as_a_whole():
    turns = [
        TableExample(f"{n}", text, PEOPLE, Answer(("Person A",), ((0, 0),)), conversation="c", previous_cells=((0, 0),))
        for n, text in enumerate(["Who is it?", "And the next one?"])
    ]
    reasons = perturb_examples(turns, "rows", 1)[1]
    assert reasons == {"0": "in a conversation with an excluded question", "1": "about the order of rows"}
    moved = perturb_examples(turns, "columns", 2)[0]["0"]
    assert moved.previous_cells == moved.answer.coordinates


class Questions:
    splits = ("dev",)

    def examples(self, split):
        return [*CASES, ask("Who is in the last row?"), FOREST]


class OneQuestion:
    def examples(self, split):
        return [ask("Which column?")]


def test_a_limit_reads_the_same_perturbed_questions_and_counts_the_excluded_ones():
    dataset, limited = PerturbedDataset(Questions(), "rows", 1), PerturbedDataset(Questions(), "rows", 1)
    limited.only["dev"] = [example.example_id for example in CASES]
    assert limited.examples("dev") == dataset.examples("dev")[:2]
    assert (limited.excluded["dev"], dataset.excluded["dev"]) == ({}, {"about the order of rows": 1})
    assert dataset.splits == ("dev",)
    seed_2 = PerturbedDataset(Questions(), "rows", 2).examples("dev")[0]
    assert seed_2.table.rows != dataset.examples("dev")[0].table.rows
    with pytest.raises(DataError, match="columns keeps no question of dev"):
        PerturbedDataset(OneQuestion(), "columns", 1).examples("dev")


def test_spelling_swaps_letters_of_the_question_alone():
    (new,) = perturb_examples(CASES[:1], "spelling", 1)[0].values()
    assert new.table is PEOPLE
    assert sorted(new.question) == sorted(CASES[0].question) != list(new.question)
    assert np.count_nonzero(np.array(list(new.question)) != np.array(list(CASES[0].question))) <= 4
