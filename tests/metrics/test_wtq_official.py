from dataclasses import dataclass

import pytest
from golden import numbers, shared
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.metrics.wtq_official import is_right, is_right_for, normalize, official_accuracy, read_item, read_items
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.numbers import Date
from mate_cli.tables.table import Cell, Table

GOLDEN = numbers("wikitablequestions/official_verdicts")
CASES = GOLDEN["cases"]
KINDS = sorted({case["kind"] for case in CASES})


@dataclass(frozen=True)
class Picked:
    cells: tuple[tuple[int, int], ...] = ()
    aggregation: str = "none"


@pytest.mark.parametrize("kind", KINDS)
def test_verdicts_equal_the_published_script(kind):
    cases = [case for case in CASES if case["kind"] == kind]
    verdicts = [is_right(case["predicted"], case["texts"], case["canonical"]) for case in cases]
    assert verdicts == [case["right"] for case in cases]


def test_the_golden_cases_hold_both_verdicts():
    right = sum(case["right"] for case in CASES)
    assert 100 < right < len(CASES) - 100


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Café  Olé", "cafe ole"),
        ("“Smart” ‘quotes’", "\"smart\" 'quotes'"),  # noqa: RUF001
        ("1982–1985", "1982-1985"),  # noqa: RUF001
        ('"Quoted title" (live)[3]*', "quoted title"),
        ("[note]", "[note]"),
        ("[12]", ""),
        ("a [note]", "a"),
        ("St. Louis.", "st. louis"),
        ("(all)", "(all)"),
        ("ΟΔΟΣ", "οδοσ"),
    ],
)
def test_normal_forms(text, wanted):
    assert normalize(text) == wanted


@given(st.text("aÉß1 .-*\u0301", max_size=12))
def test_the_normal_form_of_marks_at_the_end_is_that_without_them(text):
    assert normalize(text + "x [1]†") == normalize(text + "x")


def test_items():
    assert read_item("6 days", "6.0").number == 6
    assert read_item("2.9999999").number == 2
    assert read_item("- 3").number == -3
    assert read_item("1_000").number is None
    assert read_item("nan").number is None
    assert read_item("xx-01-12").date == Date(None, 1, 12)
    assert read_item("1990-xx-xx").number == 1990
    assert read_item("xx-xx-xx").date is None
    assert read_item("1990-13-01").date is None
    assert [item.text for item in read_items(["3", "3.0", "x", "X"])] == ["x", "3"]


def test_selections_are_judged_by_what_they_give():
    rows = (("6 days", "1,000"), ("Café", "5"))
    table = Table("t", (Cell("a"), Cell("b")), tuple(tuple(Cell(text) for text in row) for row in rows))
    examples = {
        "said": TableExample("said", "?", table, Answer(("1,005 people",), canonical=("1005.0",))),
        "count": TableExample("count", "?", table, Answer(("2",))),
        "text": TableExample("text", "?", table, Answer(("cafe",))),
        "missing": TableExample("missing", "?", table, Answer(("cafe",))),
        "wrong": TableExample("wrong", "?", table, Answer(("1005",))),
        "unanswered": TableExample("unanswered", "?", table),
    }
    both = ((0, 1), (1, 1))
    predictions = {
        "said": Picked(both, "sum"),
        "count": Picked(both, "count"),
        "text": Picked(((1, 0),)),
        "wrong": Picked(both, "average"),
        "unanswered": Picked(both),
    }
    right = [name for name, picked in predictions.items() if is_right_for(picked, examples[name])]
    assert right == ["said", "count", "text"]
    assert official_accuracy(predictions, examples) == {"official_accuracy": 3 / 5}


def test_without_what_the_texts_stand_for_there_is_no_score():
    example = TableExample("q", "?", Table("t", (Cell("a"),), ((Cell("x"),),)), Answer(("x",)))
    assert official_accuracy({"q": Picked(((0, 0),))}, {"q": example}) == {}
    assert official_accuracy({}, {}) == {}


def test_the_answers_of_the_shared_questions_are_right():
    lines = shared("data", "wtq", "tagged", "data", "pristine-unseen-tables.tagged").read_text("utf-8").split("\n")
    header = lines[0].split("\t")
    rows = [dict(zip(header, line.split("\t"), strict=True)) for line in lines[1:] if line]
    answers = [(row["targetValue"].split("|"), row["targetCanon"].split("|")) for row in rows]
    assert len(answers) == 3491
    assert all(is_right(texts, texts, canonical) for texts, canonical in answers)
    assert all(is_right(canonical[::-1], texts, canonical) for texts, canonical in answers)
    assert not any(is_right([*texts, "no such item"], texts, canonical) for texts, canonical in answers)
