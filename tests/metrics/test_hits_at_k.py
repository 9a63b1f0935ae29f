import pytest
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.errors import DataError
from mate_cli.metrics.hits_at_k import hits_at_k

CELLS = st.tuples(st.integers(0, 3), st.integers(0, 2))
QUESTIONS = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(st.lists(CELLS, unique=True, max_size=12), st.sets(CELLS, max_size=4), st.booleans()),
    min_size=1,
)


@given(QUESTIONS, st.sets(st.integers(1, 13), min_size=1))
def test_agrees_with_counting_by_hand(questions, ks):
    rankings = {key: ranking for key, (ranking, _, _) in questions.items()}
    candidates = {key: cells for key, (_, cells, _) in questions.items()}
    groups = {"table": [key for key, (_, _, in_table) in questions.items() if in_table]}
    scores = hits_at_k(rankings, candidates, groups, ks=sorted(ks))
    for k in ks:
        hit = {key: bool(set(ranking[:k]) & cells) for key, (ranking, cells, _) in questions.items()}
        assert scores[f"hits@{k}"] == sum(hit.values()) / len(hit)
        if groups["table"]:
            assert scores[f"hits@{k}/table"] == sum(hit[key] for key in groups["table"]) / len(groups["table"])
        else:
            assert f"hits@{k}/table" not in scores


def test_questions_without_a_ranking_count_as_missed():
    assert hits_at_k({"a": [(0, 0)]}, {"a": [(0, 0)], "b": [(0, 0)]}, ks=[1]) == {"hits@1": 0.5}


def test_a_split_without_answers_is_refused():
    with pytest.raises(DataError, match="no question has an answer"):
        hits_at_k({}, {})
