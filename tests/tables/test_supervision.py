import json

import numpy as np
import pytest
from golden import tapas
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.tables.example import Answer
from mate_cli.tables.supervision import ABSENT, NO_TEXT, REASONS, SEVERAL, SHARED, CellFinder, supervise
from mate_cli.tables.table import Cell, Table

GOLDEN = json.loads(tapas("g9_metrics.json").read_text())


def a_table(header, rows):
    return Table("t", tuple(map(Cell, header)), tuple(tuple(map(Cell, row)) for row in rows))


RACE = CellFinder(a_table(GOLDEN["tables"]["t2"]["columns"], GOLDEN["tables"]["t2"]["rows"]))
WORDS = [
    ("Found multiple cells", SEVERAL),
    ("Assignment is ambiguous", SHARED),
    ("No answer_texts", NO_TEXT),
    ("Unable to convert", ABSENT),
]


@pytest.mark.parametrize("case", GOLDEN["answer_parsing_t2"], ids=lambda case: f"{case['texts']}-{case['mode']}")
def test_answers_are_parsed_as_the_reference_does(case):
    stated = Answer(tuple(case["texts"]), ((5, 5),), aggregation="sum", number=case["float_in"])
    answer = supervise(stated, RACE, case["mode"].lower())
    assert answer.aggregation is None
    if "error" in case:
        reason = next(ours for theirs, ours in WORDS if theirs in case["error"])
        assert answer == Answer(tuple(case["texts"]), source=reason)
    else:
        assert answer.source == ""
        assert answer.texts == tuple(case["texts_out"])
        assert answer.coordinates == tuple(map(tuple, case["coordinates"]))
        assert answer.number == case["float_value"]


def test_none_leaves_the_answer_as_it_is():
    stated = Answer(("zzz",), ((0, 0), (1, 0)), aggregation="count", number=2.0)
    assert supervise(stated, RACE, "none") == stated


@pytest.mark.parametrize(
    ("text", "cell"),
    [("Rome", (0, 0)), ("rome", (1, 0)), ("a.b", (2, 0)), ("Z\u00fcrich (city)", (3, 0)), ("ROME", (0, 0))],
)
def test_the_closest_normal_form_decides(text, cell):
    finder = CellFinder(a_table(["x"], [["Rome"], ["rome"], ["a . b"], ["zurich"]]))
    assert finder.find([text]) == ((cell,), "")


def test_the_header_holds_no_answer():
    assert CellFinder(a_table(["Rome"], [["x"]])).find(["Rome"]) == ((), ABSENT)


def test_a_number_is_the_text_unless_the_text_is_that_number():
    finder = CellFinder(a_table(["x"], [["1,000"], ["12"], ["0.1"]]))
    assert supervise(Answer(("1,000",), number=1000.0), finder, "remove_all").coordinates == ((0, 0),)
    assert supervise(Answer(("a", "b"), number=12.0), finder, "remove_all").texts == ("12",)
    assert supervise(Answer(("0.1",), number=0.1), finder, "remove_all").texts == ("0.1",)
    assert supervise(Answer(("a", "b"), number=0.1), finder, "remove_all").coordinates == ()


@pytest.mark.parametrize("text", ["nan", "inf", "-infinity"])
def test_a_number_that_is_not_finite_is_none(text):
    finder = CellFinder(a_table(["x"], [[text]]))
    assert supervise(Answer((text,)), finder, "remove_all") == Answer((text,), ((0, 0),))
    assert supervise(Answer((text,)), RACE, "remove_all") == Answer((text,), source=ABSENT)


SMALL = st.lists(st.lists(st.sampled_from("abcdeA"), min_size=2, max_size=2), min_size=1, max_size=4)


@given(SMALL, st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3))
def test_the_cells_are_those_of_the_optimal_assignment(rows, texts):
    from scipy.optimize import linear_sum_assignment

    finder = CellFinder(a_table(["x", "y"], rows))
    coordinates, reason = finder.find(texts)
    cells = [cell for row in rows for cell in row]
    cost = -np.array([[cell == text for cell in cells] for text in texts], dtype=float)
    if not cost.any(axis=1).all():
        return
    if cost.sum(axis=0).min() < -1:
        assert (coordinates, reason) == ((), SHARED)
    else:
        assert coordinates == tuple(divmod(int(place), 2) for place in linear_sum_assignment(cost)[1])


@given(SMALL, st.lists(st.sampled_from(["a", "b", "E", "7"]), max_size=3))
def test_strict_answers_are_usable_ones(rows, texts):
    finder = CellFinder(a_table(["x", "y"], rows))
    loose, strict = (supervise(Answer(tuple(texts)), finder, mode) for mode in ("remove_all", "remove_all_strict"))
    assert {loose.source, strict.source} <= {"", *REASONS}
    assert strict.source or strict == loose
    for answer in (loose, strict):
        assert bool(answer.source) == (not answer.coordinates and answer.number is None)
