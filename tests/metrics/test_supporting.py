"""Answers with their evidence, by hand as hotpot_evaluate_v1.py works them."""

import random
import re
import string

import pytest

from mate_cli.metrics.supporting import answer_overlap, score_supported_answers, supporting_overlap

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


def test_both_right_is_jointly_right():
    scores = score_supported_answers({"a": "Rome"}, {"a": [(1, 0)]}, {"a": ["rome."]}, {"a": [(1, 0)]})
    assert set(scores.values()) == {1.0}


def test_special_answers_overlap_with_nothing_else():
    assert answer_overlap("no", "no one").f1 == 0
    assert answer_overlap("noanswer", "no answer").f1 == 0
    assert answer_overlap("yes", "Yes!") == (1, 1, 1, 1)


def test_the_nearest_alias_counts():
    scores = score_supported_answers({"a": "JFK"}, {}, {"a": ["John F. Kennedy", "JFK"]}, {})
    assert scores == {"em": 1.0, "f1": 1.0}


def test_no_sentence_at_all():
    assert supporting_overlap([], [(0, 0)]) == (0, 0, 0, 0)
    assert supporting_overlap([(0, 0)], []) == (0, 0, 0, 0)


WORDS = (
    "yes",
    "no",
    "noanswer",
    "the",
    "a",
    "Paris",
    "paris.",
    "France",
    "1,000",
    "1000",
    "...",
    "",
    "x-ray",
    "an",
    "É",
)


def words_of(text):
    kept = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return re.sub(r"\b(?:a|an|the)\b", " ", kept).split()


def musique_scores(prediction, references):
    """EM and F1 by the rule of MuSiQue: the best of all references for each; no words on both sides is right."""
    exact, overlaps = [], []
    for reference in references:
        ours, theirs = words_of(prediction), words_of(reference)
        exact.append(float(ours == theirs))
        both = sum(min(ours.count(word), theirs.count(word)) for word in set(ours))
        either = len(ours) + len(theirs)
        overlaps.append(float(ours == theirs) if not ours or not theirs else 2 * both / either)
    return max(exact), max(overlaps)


def test_answers_by_words_are_scored_as_by_the_script_of_musique():
    draw = random.Random(5)

    def text():
        return " ".join(draw.choices(WORDS, k=draw.randint(0, 4)))

    differ = 0
    for _ in range(6_000):
        prediction, references = text(), [text() for _ in range(draw.randint(1, 3))]
        known = {"a": prediction}, {}, {"a": references}, {}
        scores = score_supported_answers(*known, by_words={"a"})
        assert (scores["em"], scores["f1"]) == pytest.approx(musique_scores(prediction, references)), known
        differ += scores != pytest.approx(score_supported_answers(*known))
    assert differ > 300, "HotpotQA's rule is another one"
