"""Accuracy: the fraction of questions, or of masked tokens, that are predicted correctly."""

import math
from collections.abc import Collection, Mapping

from mate_cli.metrics.specs import MetricSpec, MetricTable
from mate_cli.metrics.subsets import average_by_group

ACCURACIES = MetricTable("Accuracy", layout="accuracies")
ACCURACY = MetricSpec("accuracy", "Accuracy", 1, order=80, importance=3, table=ACCURACIES, hub_name="accuracy")
ROW_ACCURACY = MetricSpec("row_accuracy", "Row accuracy", 1, order=30)
"""Accuracy of the first step of Hybrider: the selected node (cell) is in a row that contains the answer."""
HOP_ACCURACY = MetricSpec("hop_accuracy", "Hop accuracy", 1, order=31)
"""Accuracy of the second step of Hybrider: the selected cell contains the answer, or links to a page that does."""


def accuracy(
    name: str, correct: Collection[str], questions: Collection[str], groups: Mapping[str, Collection[str]] | None = None
) -> dict[str, float]:
    """Compute the accuracy over all questions (<name>) and over each group (<name>/<group>).

    Args:
        name: name of the metric.
        correct: ids of the correctly answered questions.
        questions: ids of all questions to score.
        groups: question ids by group name. Ids outside `questions` are ignored. None: no groups.

    Returns:
        The accuracies by name. A group without questions has no score.
    """
    members = {key: [question for question in ids if question in questions] for key, ids in (groups or {}).items()}
    return average_by_group(name, dict.fromkeys(correct, 1), questions, members)


MAX_NATS = 50.0
"""Maximum mean loss in nats. The perplexity of a larger loss would overflow, and is reported as e ** 50."""
MASKED_ACCURACY = MetricSpec("masked_accuracy", "Masked accuracy", 1, order=40)
PERPLEXITY = MetricSpec("perplexity", "Perplexity", -1, ".1f", order=41, hub_name="perplexity")


def masked_scores(masked: int, right: int, nats: float) -> dict[str, float]:
    """Compute the accuracy and the perplexity of masked tokens.

    Args:
        masked: number of masked tokens.
        right: number of correctly predicted masked tokens.
        nats: sum of the negative log probabilities of the correct tokens.

    Returns:
        masked_accuracy and perplexity, empty without masked tokens.
    """
    if not masked:
        return {}
    return {"masked_accuracy": right / masked, "perplexity": math.exp(min(nats / masked, MAX_NATS))}
