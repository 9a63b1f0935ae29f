import json

import pytest
from golden import others, tapas

from mate_cli.errors import DataError
from mate_cli.metrics.exact_match import exact_match, f1, normalize_answer, score_predictions


def official(name):
    return json.loads(others(name).read_text())


def test_scores_are_those_of_the_official_script():
    reference = official("hybridqa_small_reference.json")
    predictions = {p["question_id"]: p["pred"] for p in official("hybridqa_small_predictions.json")}
    groups = {source: reference[source] for source in ("table", "passage")}
    scores = score_predictions(predictions, reference["reference"], groups)
    names = {"total": "", "table": "/table", "passage": "/passage"}
    expected = official("hybridqa_eval.json")["result"]
    for official_name, ours in names.items():
        assert 100 * scores[f"em{ours}"] == pytest.approx(expected[f"{official_name} exact"], abs=1e-11)
        assert 100 * scores[f"f1{ours}"] == pytest.approx(expected[f"{official_name} f1"], abs=1e-11)


def test_every_example_is_scored_as_the_official_script_scores_it():
    cases = official("hybridqa_eval.json")
    for case in [*cases["per_example"], *cases["edge_cases"]]:
        assert exact_match(case["pred"], case["gold"]) == case["exact"], case
        assert f1(case["pred"], case["gold"]) == case["f1"], case
    for case in cases["edge_cases"]:
        assert [*map(normalize_answer, (case["gold"], case["pred"]))] == [case["norm_gold"], case["norm_pred"]]


def test_pairs_agree_with_the_tapas_reader():
    for case in json.loads(tapas("g14_em_f1.json").read_text())["pairs"]:
        assert [normalize_answer(case["gold"]), normalize_answer(case["pred"])] == case["normalized"]
        assert exact_match(case["pred"], case["gold"]) == case["exact"]
        assert f1(case["pred"], case["gold"]) == pytest.approx(case["precision_recall_f1"][2], abs=1e-15)


def test_missing_predictions_count_as_wrong_and_strangers_not_at_all():
    assert score_predictions({"q1": "x", "stranger": "y"}, {"q1": "x", "q2": "y"}) == {"em": 0.5, "f1": 0.5}


def test_a_split_without_answers_is_refused():
    with pytest.raises(DataError, match="no reference answers"):
        score_predictions({}, {})


def test_questions_outside_the_groups_count_in_the_total():
    scores = score_predictions(
        {"a": "1", "b": "2", "c": "0"}, {"a": "1", "b": "2", "c": "3"}, {"table": ["a"], "x": []}
    )
    assert scores == {"em": 2 / 3, "f1": 2 / 3, "em/table": 1.0, "f1/table": 1.0}
