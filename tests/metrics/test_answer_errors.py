import pytest

from mate_cli.metrics.answer_errors import PAPER, AnsweredQuestion, answer_error, count_errors, place_of


@pytest.mark.parametrize(
    ("prediction", "reference", "kind"),
    [
        ("The Broncos", "broncos", None),
        ("", "Oslo", "empty"),
        ("!", "Oslo", "empty"),
        ("three", "3", "number_form"),
        ("3rd", "third", "number_form"),
        ("33 years", "33", "number_form"),
        ("8,000", "8000", None),
        ("eight seats", "8 seats", "number_form"),
        ("the city of Oslo , Norway", "Oslo", "too_many"),
        ("Oslo", "Oslo , Norway", "too_few"),
        ("Norway Oslo", "Oslo Norway", "too_many"),
        ("12", "13", "wrong_number"),
        ("12 goals", "9", "wrong_number"),
        ("4 May 1901", "1902", "wrong_number"),
        ("1901", "twelve", "other_type"),
        ("Ann Lee", "Bob Ray", "same_type"),
        ("Michelle Obama", "Barack Obama", "same_type"),
        ("University of Oslo", "Bergen", "same_type"),
        ("goalkeeper", "a defender", "same_type"),
        ("Oslo", "a defender", "other_type"),
        ("Oslo", "1902", "other_type"),
    ],
)
def test_each_kind(prediction, reference, kind):
    assert answer_error(prediction, [reference]) == kind


def test_the_nearest_reference_counts():
    assert answer_error("Oslo city", ["1902", "Oslo", "Rome"]) == "too_many"
    assert answer_error("oslo", ["1902", "Oslo"]) is None
    assert answer_error("Oslo", ["the"]) == "other_type"


def test_cells_beside_those_of_the_answer():
    assert [place_of(cell, [(1, 2), (3, 2)]) for cell in ((3, 2), (1, 0), (0, 2))] == [
        "right_cell",
        "wrong_column",
        "wrong_row",
    ]


def test_shares_are_those_that_the_paper_has():
    asked = [
        AnsweredQuestion("Oslo", ["Oslo"], (5, 5), [(0, 0)]),
        AnsweredQuestion("three", ["3"], (0, 0), [(0, 0)]),
        AnsweredQuestion("Oslo Norway", ["Oslo"], (0, 1), [(0, 0)]),
        AnsweredQuestion("Ann", ["Bob"], (1, 0), [(0, 0)]),
        AnsweredQuestion("Ann", ["goals"], (1, 0), []),
        AnsweredQuestion("", ["goals"]),
    ]
    counts = count_errors(asked)
    assert (counts.questions, counts.wrong) == (6, 5)
    assert counts.places == {"right_cell": 1, "wrong_column": 1, "wrong_row": 1}
    assert counts.shares() == pytest.approx(
        {
            "near misses": 2 / 5,
            "numbers (% of near misses)": 1 / 2,
            "words (% of near misses)": 1 / 2,
            "right answer type (% of other errors)": 1 / 3,
        }
    )
    assert count_errors([]).shares() == {}
    assert list(counts.shares()) == list(PAPER)
    assert [round(100 * share) for share in PAPER.values()] == [55, 30, 58, 80]  # MATE paper, section 7
