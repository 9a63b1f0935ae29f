import pytest

from mate_cli.metrics.pruning import Pruning, pruning_scores
from mate_cli.metrics.specs import MetricName


def test_each_mean_is_over_the_examples_that_have_it():
    prunings = [
        Pruning("a", 10, True, 1.5),
        Pruning("b", 20, False, -0.5),
        Pruning("c", 30, True),
        Pruning("the answer was not in the input", 40),
    ]
    assert pruning_scores(prunings) == pytest.approx({"kept": 2 / 3, "kept_tokens": 25.0, "score_margin": 0.5})
    assert pruning_scores(prunings[3:]) == {"kept_tokens": 40.0}
    assert pruning_scores([]) == {}


def test_runs_are_not_ranked_by_how_much_they_read():
    names = [MetricName.parse(f"dev/{name}") for name in ("kept", "kept_tokens", "score_margin")]
    assert [name.is_score for name in names] == [True, False, False]
    assert [name.spec.text(0.25) for name in names] == ["25.0", "0", "0.250"]
