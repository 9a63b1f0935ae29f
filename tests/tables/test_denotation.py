import json
import math

import pytest
from golden import tapas
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.tables.denotation import answer_texts, denotation_of, normal_form, number_text
from mate_cli.tables.example import AGGREGATIONS
from mate_cli.tables.table import Cell, Table

G5 = json.loads(tapas("g5_text.json").read_text())["strings"]
G9 = json.loads(tapas("g9_metrics.json").read_text())


def table_of(rows, columns=None, name="t"):
    header = tuple(Cell(text) for text in columns or [""] * len(rows[0]))
    return Table(name, header, tuple(tuple(Cell(text) for text in row) for row in rows))


def golden_table(name):
    return table_of(G9["tables"][name]["rows"], G9["tables"][name]["columns"], name)


@pytest.mark.parametrize("case", G9["execute"], ids=lambda case: f"{AGGREGATIONS[case['agg']]}-{case['coordinates']}")
def test_execution_equals_the_reference(case):
    found = denotation_of(AGGREGATIONS[case["agg"]], tuple(map(tuple, case["coordinates"])), golden_table("t1"))
    assert found == tuple(case["denotation"])


@pytest.mark.parametrize("case", G5, ids=lambda case: repr(case["input"]))
def test_values_and_normal_forms_equal_the_reference(case):
    (value,) = denotation_of("none", ((0, 0),), table_of([[case["input"]]]))
    wanted = case["calc_parse_value"]
    assert value == (math.inf if case["input"] in ("inf", "infinity") else wanted)
    assert list(normal_form((case["input"],))) == case["normalize_answers"]


def test_a_cell_counts_once():
    table = table_of([["2"], ["3"]])
    assert denotation_of("sum", ((0, 0), (1, 0), (0, 0)), table) == (5.0,)
    assert denotation_of("count", ((0, 0), (0, 0)), table) == (1.0,)


def test_an_unknown_aggregation_is_refused():
    with pytest.raises(ValueError, match="median"):
        denotation_of("median", (), table_of([["2"]]))


def test_numbers_that_are_equal_in_32_bits_are_equal():
    assert normal_form((992.39,)) == normal_form((992.3900146484375,))
    assert normal_form((992.39,)) != normal_form((992.3901,))


@pytest.mark.parametrize("text", ["nan", "NaN", "-nan", " nan "])
def test_not_a_number_is_no_value(text):
    assert normal_form((text, math.nan, "b", 1.0)) == ("1.0", "b")
    assert normal_form(denotation_of("sum", ((0, 0), (1, 0)), table_of([[text], ["1"]]))) == ()


@given(st.lists(st.floats() | st.text(), max_size=5), st.randoms(use_true_random=False))
def test_the_order_does_not_matter(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    assert normal_form(values) == normal_form(shuffled)


def test_answers_for_people():
    table = golden_table("t1")
    assert answer_texts("none", ((0, 1), (0, 0)), table) == ("67,000", "France")
    assert answer_texts("average", ((2, 1), (4, 1)), table) == ("4319.5",)
    assert answer_texts("sum", ((0, 0),), table) == ("France",)
    assert answer_texts("count", (), table) == ("0",)
    assert answer_texts("sum", (), table) == ()


@pytest.mark.parametrize(
    ("number", "text"),
    [(3.0, "3"), (100.0, "100"), (1 / 3, "0.3333"), (-0.5, "-0.5"), (2e-7, "2e-07"), (0.0, "0"), (math.inf, "inf")],
)
def test_number_texts(number, text):
    assert number_text(number) == text
    assert number_text(1204, ",") == "1,204"
