"""Values of TAT-QA's metric: every case was computed by the script of its authors."""

import pytest

from mate_cli.metrics.tatqa_official import ScaledAnswers
from mate_cli.tables.example import Answer, ScaledExample, SystemAnswer
from mate_cli.tables.table import Table

CASES = [
    ("span", ["12314.1"], "million", ["12314.1"], "million", 1, 1),
    ("span", ["1234.1"], "million", ["1234.1"], "thousand", 0, 0),
    ("multi-span", ["oslo", "rome", "bern"], "", ["rome", "oslo"], "", 0, 0.8),
    ("multi-span", ["$23,234", "$234.12"], "", ["234.12", "23,234"], "", 1, 1),
    ("arithmetic", ["123.2"], "million", ["123200000"], "", 1, 1),
    ("arithmetic", ["22.12"], "percent", ["0.2212"], "", 1, 1),
    ("arithmetic", ["22.12"], "percent", ["22.1231"], "percent", 1, 1),
    ("arithmetic", ["22.12"], "percent", ["22.1231"], "", 0, 0),
    ("arithmetic", ["123.22"], "", ["123.2"], "", 0, 0),
    ("span", ["22.12"], "percent", ["22.12%"], "", 1, 1),
    ("span", ["22.12"], "", ["22.12%"], "", 0, 0),
    ("span", ["-134"], "", ["(134)"], "", 1, 1),
    ("span", ["$1.0 million"], "", ["['$1.0 million']"], "", 1, 1),
    ("span", ["the cost of sales and of staff"], "", ["cost of staff, of sales"], "", 0, 0.89),
    ("count", ["5"], "", ["abcd 5"], "", 0, 0),
    ("span", ["12"], "", [], "", 0, 0),
]


@pytest.mark.parametrize(("kind", "gold", "scale", "predicted", "predicted_scale", "em", "f1"), CASES)
def test_scores_equal_those_of_the_authors(kind, gold, scale, predicted, predicted_scale, em, f1):
    example = ScaledExample("q", "?", Table("t", (), ()), Answer(tuple(gold)), subsets=(kind,), scale=scale)
    scores = ScaledAnswers({"q": SystemAnswer(tuple(predicted), scale=predicted_scale)}).score({"q": example})
    assert (scores["em"], scores["f1"]) == (em, f1)
    assert scores["scale_accuracy"] == (bool(predicted) and scale == predicted_scale)
