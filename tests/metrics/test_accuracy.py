"""Accuracy of all questions and of groups."""

from mate_cli.metrics.accuracy import accuracy


def test_shares_of_all_and_of_groups():
    groups = {"table": ["a", "b"], "passage": ["c", "unknown"], "none": ["unknown"]}
    found = accuracy("hop_accuracy", {"a", "c", "unknown"}, ["a", "b", "c", "d"], groups)
    assert found == {"hop_accuracy": 0.5, "hop_accuracy/table": 0.5, "hop_accuracy/passage": 1.0}


def test_without_questions_there_is_no_score():
    assert accuracy("x", ["a"], []) == {}
