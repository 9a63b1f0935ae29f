"""Thousands of drawn answers, scored as by the rules of the official scripts, which are written down here once more."""

import random
import re
import string

import pytest

from mate_cli.papers.transformer_xh.metrics.supporting import (
    answer_overlap,
    joint_overlap,
    score_supported_answers,
    supporting_overlap,
)

WORDS = (
    *("yes", "no", "noanswer", "the", "a", "Paris", "paris.", "France", "1,000", "1000", "...", "", "x-ray", "an"),
    "É",
)
PAIRS = 6_000


def texts(seed):
    draw = random.Random(seed)
    for _ in range(PAIRS):
        yield draw, *(" ".join(draw.choices(WORDS, k=draw.randint(0, 4))) for _ in range(2))


def words_of(text):
    """Lower case, no punctuation, no articles; in this order."""
    kept = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return re.sub(r"\b(?:a|an|the)\b", " ", kept).split()


def shares(ours, theirs):
    """Precision and recall of words."""
    both = sum(min(ours.count(word), theirs.count(word)) for word in set(ours))
    return (both / len(ours), both / len(theirs)) if both else (0.0, 0.0)


def mean(precision, recall):
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def test_answers_and_evidence_of_hotpotqa():
    """As by hotpot_evaluate_v1.py: yes, no and noanswer are right or wrong as a whole, and no words are no overlap."""
    special = (["yes"], ["no"], ["noanswer"])
    for draw, prediction, reference in texts(2):
        ours, theirs = words_of(prediction), words_of(reference)
        whole = ours != theirs and (ours in special or theirs in special)
        answer = (0.0, 0.0) if whole else shares(ours, theirs)
        found = answer_overlap(prediction, reference)
        assert (found.precision, found.recall) == pytest.approx(answer, abs=1e-12), (prediction, reference)
        assert (found.em, found.f1) == pytest.approx((float(ours == theirs), mean(*answer)), abs=1e-12)

        said, right = ({(draw.randint(0, 2), draw.randint(0, 2)) for _ in range(draw.randint(0, 3))} for _ in range(2))
        facts = (len(said & right) / max(len(said), 1), len(said & right) / max(len(right), 1))
        shown = supporting_overlap(said, right)
        assert (shown.em, shown.f1) == pytest.approx((float(said == right), mean(*facts)), abs=1e-12), (said, right)
        joint = joint_overlap(found, shown)
        products = [one * other for one, other in zip(answer, facts, strict=True)]
        assert (joint.em, joint.f1) == pytest.approx((found.em * shown.em, mean(*products)), abs=1e-12)


def test_answers_of_musique():
    """As by metrics/answer.py of MuSiQue: words alone count, and of all references the best for EM and for F1."""
    differ = 0
    for draw, prediction, reference in texts(3):
        references = [reference, *(" ".join(draw.choices(WORDS, k=2)) for _ in range(draw.randint(0, 2)))]
        ours, wanted = words_of(prediction), [words_of(one) for one in references]
        exact = max(float(ours == theirs) for theirs in wanted)
        overlap = max(mean(*shares(ours, one)) if ours and one else float(ours == one) for one in wanted)
        known = {"q": prediction}, {}, {"q": references}, {}
        scores = score_supported_answers(*known, by_words={"q"})
        assert (scores["em"], scores["f1"]) == pytest.approx((exact, overlap), abs=1e-12), known
        differ += scores != pytest.approx(score_supported_answers(*known))
    assert differ > PAIRS / 20, "HotpotQA's rule is another one"
