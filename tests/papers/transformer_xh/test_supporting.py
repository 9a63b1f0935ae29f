"""Answers with their evidence, by hand as hotpot_evaluate_v1.py works them."""

import pytest

from mate_cli.papers.transformer_xh.metrics.supporting import score_supported_answers

ANSWERS = {"a": "the Eiffel Tower", "b": "Paris, France", "c": "yes", "d": "no"}
REFERENCES = {"a": ["Eiffel Tower"], "b": ["Paris"], "c": ["yes it is"], "d": ["no"], "e": ["Rome"]}
SHOWN = {"a": [(0, 0), (1, 2)], "b": [(0, 0)], "c": [(3, 0)], "d": []}
GOLD = {"a": [(0, 0), (2, 1)], "b": [(0, 0), (1, 0)], "c": [(3, 0)], "d": [(1, 0)], "e": [(1, 1)]}


def test_means_by_hand():
    """Question by question: em 1 0 0 1 0, f1 1 2/3 0 1 0; sp f1 1/2 2/3 1 0 0; joint f1 1/2 1/2 0 0 0."""
    scores = score_supported_answers(ANSWERS, SHOWN, REFERENCES, GOLD, {"few": ["b", "c"], "none": []})
    expected = {
        "em": 2 / 5,
        "f1": (1 + 2 / 3 + 1) / 5,
        "sp_em": 1 / 5,
        "sp_f1": (1 / 2 + 2 / 3 + 1) / 5,
        "joint_em": 0.0,
        "joint_f1": (1 / 2 + 1 / 2) / 5,
    }
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    assert scores["f1/few"] == pytest.approx(1 / 3)
    assert scores["joint_f1/few"] == pytest.approx(1 / 4)
    assert not any(name.endswith("/none") for name in scores)


def test_the_nearest_alias_counts():
    scores = score_supported_answers({"a": "JFK"}, {}, {"a": ["John F. Kennedy", "JFK"]}, {})
    assert scores == {"em": 1.0, "f1": 1.0}
