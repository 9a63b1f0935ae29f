"""Synthetic questions: the gold cell holds the answer, the clue is elsewhere in the row and fits no other row."""

import re
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_tables import player_table
from strategies import tables

from mate_cli.data.synthesis.question_clues import cell_clue, end_rows
from mate_cli.data.synthesis.question_columns import QuestionTable
from mate_cli.data.synthesis.questions import MAX_CANDIDATES, SHARES, as_example, make_questions
from mate_cli.tables.table import Cell, Table
from mate_cli.tables.text import candidate_cells, find_all_substrings, normalize_for_candidates

SHAPE = re.compile(r"[A-Z\d\"'$\W].* \?")


def made_of(table, seed=0, count=12):
    return make_questions(table, np.random.default_rng(seed), count)


@pytest.fixture(scope="module")
def many():
    """(table, question) of 60 made-up tables."""
    found = [(table, question) for n in range(60) for table in [player_table(n)] for question in made_of(table, n, 10)]
    assert len(found) > 550
    return found


def assert_sound(table, question):
    cell = table.rows[question.row][question.column]
    held = table.passages[question.link] if question.link else cell.text
    assert question.link is None or question.link in cell.links
    needle = normalize_for_candidates(question.answer)
    assert find_all_substrings(needle, normalize_for_candidates(held)), "the gold cell holds the answer"
    assert question.link or " ".join(cell.text.split()) == question.answer
    assert not find_all_substrings(needle, normalize_for_candidates(question.text)), "the question gives it away"
    assert question.candidates == tuple(candidate_cells(table, question.answer))
    assert (question.row, question.column) in question.candidates
    assert len(question.candidates) <= MAX_CANDIDATES
    assert question.clue_rows == {question.row}
    assert question.clue_columns
    assert question.column not in question.clue_columns
    assert question.kind.startswith("passage" if question.link else "cell")
    assert SHAPE.fullmatch(question.text)
    assert "  " not in question.text


def test_every_question_is_sound(many):
    for table, question in many:
        assert_sound(table, question)


@given(tables(), st.integers(0, 5))
def test_no_table_is_too_odd(table, seed):
    for question in made_of(table, seed, 4):
        assert_sound(table, question)


def test_a_clue_from_a_passage_does_not_name_its_subject(many):
    checked = 0
    for table, question in many:
        if question.kind != "cell_by_passage" or len(question.clue_columns) > 1:
            continue
        (column,) = question.clue_columns
        words = normalize_for_candidates(question.text).split()
        assert not set(normalize_for_candidates(table.rows[question.row][column].text).split()) & set(words)
        checked += 1
    assert checked > 50


CLAIMS = {
    r"(?:highest number of|most) points": lambda rows: max(rows, key=lambda row: int(row[3])),
    r"(?:lowest number of|fewest) points": lambda rows: min(rows, key=lambda row: int(row[3])),
    r"(?:latest|most recent|last) year": lambda rows: max(rows, key=lambda row: int(row[0])),
    r"(?:earliest|first) year": lambda rows: min(rows, key=lambda row: int(row[0])),
    r"(?:in|from|of|year is|the year) (?P<year>19\d\d)": lambda rows, year: next(r for r in rows if r[0] == year),
    r"before (?P<year>19\d\d)": lambda rows, year: next(r for r in rows if r[0] < year),
    r"after (?P<year>19\d\d)": lambda rows, year: next(r for r in reversed(rows) if r[0] > year),
    r"more than (?P<n>\d+) points": lambda rows, n: next(r for r in rows if int(r[3]) > int(n)),
    r"fewer than (?P<n>\d+) points": lambda rows, n: next(r for r in rows if int(r[3]) < int(n)),
}


def test_clues_from_cells_say_what_is_so():
    checked = Counter()
    rng = np.random.default_rng(0)
    for table in map(player_table, range(20)):
        asked = QuestionTable(table)
        rows = [[cell.text for cell in row] for row in table.rows]
        for row, column in product(range(len(rows)), [asked.columns[0], asked.columns[3]] * 4):
            clue = cell_clue(asked, row, column, rng)
            found = [claim for claim in CLAIMS if re.search(claim, clue.text) and "second" not in clue.text]
            for claim in found:
                assert CLAIMS[claim](rows, **re.search(claim, clue.text).groupdict()) == rows[row], clue
            checked.update(found)
            assert clue.rows == {row}
    assert set(checked) == set(CLAIMS)


def test_the_second_one_comes_behind_the_first():
    table = player_table(4)
    asked = QuestionTable(table)
    order = sorted(range(len(table.rows)), key=lambda row: -int(table.rows[row][3].text))
    clues = [cell_clue(asked, order[1], asked.columns[3], np.random.default_rng(seed)) for seed in range(30)]
    said = [clue.text for clue in clues if "second" in clue.text]
    assert said
    assert all(re.fullmatch("with the second (highest number of|most) points", text) for text in said)


def test_two_clues_are_given_where_one_fits_several_rows():
    header = tuple(map(Cell, ("Team", "Country", "Wins")))
    body = [("Reds", "Norway", "5"), ("Blues", "Norway", "9"), ("Greens", "Spain", "5"), ("Whites", "Spain", "9")]
    table = Table("t", header, tuple(tuple(map(Cell, row)) for row in body))
    found = [made for made in made_of(table, count=40) if made.answer in ("Reds", "Blues", "Greens", "Whites")]
    assert len(found) > 5
    for made in found:
        assert made.clue_columns == {1, 2}


def test_kinds_have_their_shares(many):
    counts = Counter(question.kind for _, question in many)
    for kind, share in SHARES.items():
        deviation = (share * (1 - share) / len(many)) ** 0.5
        assert abs(counts[kind] / len(many) - share) < 3.3 * deviation, counts


def test_first_and_last_ones_are_asked_for_as_often_as_people_do(many):
    from_cells = [question for _, question in many if question.kind.endswith("by_cell")]
    compared = [
        made for made in from_cells if re.search(r"(?<!name )\b(\w+est|most|last|than|after|before)\b", made.text)
    ]
    assert 0.25 < len(compared) / len(from_cells) < 0.5


def test_end_rows_have_the_smallest_and_the_largest_number():
    for table in map(player_table, range(10)):
        points = [int(row[3].text) for row in table.rows]
        smallest, largest = end_rows(QuestionTable(table).columns[3])
        assert (points[smallest], points[largest]) == (min(points), max(points))


def test_there_are_many_ways_to_put_them(many):
    assert len({question.form for _, question in many}) > 150
    assert len({question.text for _, question in many}) > 0.97 * len(many)
    assert len({question.text.split()[0] for _, question in many}) >= 10


def test_answers_from_passages_are_of_several_types(many):
    answers = [question.answer for _, question in many if question.link]
    years = sum(re.fullmatch(r"\d{4}", answer) is not None for answer in answers)
    dates = sum(re.fullmatch(r"\d+ [A-Z][a-z]+ \d{4}", answer) is not None for answer in answers)
    names = sum(answer[0].isupper() for answer in answers)
    assert min(years, dates, names) > 20


def test_what_a_column_is_called_is_not_asked_of_a_passage():
    header = tuple(map(Cell, ("City", "Population", "Mayor")))
    names = ("Bari", "Cork", "Graz", "Riga")
    body = tuple((Cell(n, (f"/wiki/{n}",)), Cell(str(5000 + i)), Cell(f"Ann {n}a")) for i, n in enumerate(names))
    passages = {f"/wiki/{n}": f"{n} is a town with a population of {900 + 7 * i} ." for i, n in enumerate(names)}
    asked = made_of(Table("t", header, body, passages=passages), count=30)
    assert asked
    assert not [question for question in asked if question.link]
    other = (header[0], Cell("Votes"), header[2])
    assert [question for question in made_of(Table("t", other, body, passages=passages), count=30) if question.link]


def test_the_same_state_gives_the_same_questions():
    first, second, other = (made_of(player_table(1), seed) for seed in (5, 5, 6))
    assert first == second
    assert first != other


@pytest.mark.parametrize("kind", SHARES)
def test_one_kind_alone_can_be_asked_for(kind):
    made = make_questions(player_table(3), np.random.default_rng(1), 8, kinds=[kind])
    assert {question.kind for question in made} == {kind}


def test_examples_hold_all_candidates_or_the_gold_cell_alone():
    table = player_table(3)
    for gold_only in (False, True):
        made = make_questions(table, np.random.default_rng(1), 8, 35 if gold_only else MAX_CANDIDATES)
        examples = [as_example(table, question, place, gold_only=gold_only) for place, question in enumerate(made)]
        assert [example.question for example in examples] == [question.text for question in made]
        for example, question in zip(examples, made, strict=True):
            gold = ((question.row, question.column),)
            assert example.answer.coordinates == (gold if gold_only else question.candidates)
            assert example.answer.source == ("passage" if question.link else "table")
            assert example.table is table
            by_first_cell = question.column == 0 or 0 in question.clue_columns
            assert example.subsets == ("first_column" if by_first_cell else "other_columns",)
        assert len({example.subsets for example in examples}) == 2
        assert len({example.example_id for example in examples}) == len(examples) == 8


@pytest.mark.parametrize("header", [("", ""), ("Name", ""), ("Notes", "Ref")])
def test_nothing_is_asked_without_names_of_columns(header):
    rows = tuple((Cell(a), Cell(b)) for a, b in (("Ann", "5"), ("Bob", "6"), ("Cy", "7")))
    assert made_of(Table("t", tuple(map(Cell, header)), rows)) == []
