"""Scores worked out by hand from the rules of evaluate-v2.0.py."""

import pytest

from mate_cli.errors import DataError
from mate_cli.metrics.system_answers import best_f1, exact_match_of_any, score_reading


@pytest.mark.parametrize(
    ("prediction", "references", "exact", "overlap"),
    [
        ("The Denver Broncos!", ["Denver Broncos", "Broncos"], True, 1.0),
        ("Broncos of Denver", ["Denver Broncos", "Carolina"], False, 0.8),  # 2 of 3 and 2 of 2 words
        ("in the 10th century", ["10th and 11th centuries", "10th"], False, 0.5),  # 1 of 3 and 1 of 1
        ("1066", ["the year 1067"], False, 0.0),
        ("", ["Oslo"], False, 0.0),
        ("", [], True, 1.0),
        ("Oslo", [], False, 0.0),
        ("", ["the", "!"], True, 1.0),  # references without a word say that there is no answer
        ("Oslo", ["the", "Oslo"], True, 1.0),  # which count for nothing beside others
    ],
)
def test_the_best_reference_counts(prediction, references, exact, overlap):
    assert exact_match_of_any(prediction, references) is exact
    assert best_f1(prediction, references) == pytest.approx(overlap)


def test_all_questions_count_and_each_group_by_itself():
    references = {"a": ["Oslo"], "b": ["Denver Broncos"], "c": [], "d": ["1066"]}
    predictions = {"a": "oslo", "b": "Broncos", "c": "Rome"}
    scores = score_reading(predictions, references, {"squad": ["a", "b"], "none": []})
    assert scores == pytest.approx(
        {
            "em": 1 / 4,
            "f1": (1 + 2 / 3) / 4,
            "em/squad": 1 / 2,
            "f1/squad": (1 + 2 / 3) / 2,
            "em/has_answer": 1 / 3,
            "f1/has_answer": (1 + 2 / 3) / 3,
            "em/no_answer": 0,
            "f1/no_answer": 0,
        }
    )
    assert set(score_reading({"a": "x"}, {"a": ["Oslo"]})) == {"em", "f1"}
    with pytest.raises(DataError, match="no questions"):
        score_reading({}, {})
