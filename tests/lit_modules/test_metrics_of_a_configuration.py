"""Metrics that a configuration adds stand beside those of the task."""

import pytest
import torch

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.errors import ConfigError
from mate_cli.lit_modules.entailment import Entailment, Verdict
from mate_cli.metrics.specs import Metric, MetricName, MetricSpec, spec_to_follow
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.tapas import Tapas
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

TABLE = Table("t", (Cell("a"),), ((Cell("b"),),))
EXAMPLES = {name: TableExample(name, "b", TABLE, Answer((), label=1)) for name in ("one", "two")}
VERDICTS = [Verdict("one", 1, 0.9), Verdict("two", 0, 0.6)]


class Refusals(Metric):
    """The share of statements that are refuted."""

    spec = MetricSpec("refusals", "Refused", -1)

    def compute(self, answers, examples):
        return sum(answer == "refuted" for answer in answers.values()) / len(examples)


class Same(Refusals):
    """A metric with the name of one of the task."""

    spec = MetricSpec("accuracy", "Accuracy", 1)


def task(*metrics) -> Entailment:
    torch.manual_seed(0)
    return Entailment(TaskContext(Tapas("tiny", attention=Sdpa(), vocab_size=20)), metrics=metrics)


def test_it_is_computed_beside_the_scores_of_the_task():
    assert task(Refusals()).all_scores(VERDICTS, EXAMPLES) == {"accuracy": 0.5, "refusals": 0.5}
    assert task().all_scores(VERDICTS, EXAMPLES) == {"accuracy": 0.5}


def test_null_means_none():
    network = Tapas("tiny", attention=Sdpa(), vocab_size=20)
    assert Entailment(TaskContext(network), metrics=None).all_scores(VERDICTS, EXAMPLES) == {"accuracy": 0.5}


def test_its_spec_is_known_once_it_is_imported():
    assert MetricName.parse("test/refusals").spec.title == "Refused"
    assert spec_to_follow("dev/refusals").direction == -1


def test_a_name_of_the_task_is_refused():
    with pytest.raises(ConfigError, match=r"task.metrics: Entailment already has a score named accuracy"):
        task(Same()).all_scores(VERDICTS, EXAMPLES)


def test_what_is_no_metric_is_refused():
    with pytest.raises(ConfigError, match=r"task.metrics: dict is not a Metric"):
        task({})
