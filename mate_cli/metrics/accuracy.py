"""Accuracy: the share of questions, or of masked word pieces, for which the right thing was chosen."""

import math
from collections.abc import Collection, Mapping

from mate_cli.metrics.specs import MetricSpec, MetricTable
from mate_cli.metrics.subsets import average_by_group

ACCURACIES = MetricTable("Accuracy", layout="accuracies")
ACCURACY = MetricSpec("accuracy", "Accuracy", 1, order=80, importance=3, table=ACCURACIES, hub_name="accuracy")
ROW_ACCURACY = MetricSpec("row_accuracy", "Row accuracy", 1, order=30)
"""Accuracy of ranking: the chosen node is in a row with the answer."""
HOP_ACCURACY = MetricSpec("hop_accuracy", "Hop accuracy", 1, order=31)
"""Accuracy of hopping: the chosen cell holds the answer, or links to the page that does."""


def accuracy(
    name: str, right: Collection[str], questions: Collection[str], groups: Mapping[str, Collection[str]] | None = None
) -> dict[str, float]:
    """Return the share of questions that are right, of all (<name>) and of each group that has any (<name>/<group>)."""
    members = {key: [question for question in ids if question in questions] for key, ids in (groups or {}).items()}
    return average_by_group(name, dict.fromkeys(right, 1), questions, members)


MAX_NATS = 50.0
"""A perplexity beyond e to this is not told apart from it."""
MASKED_ACCURACY = MetricSpec("masked_accuracy", "Masked accuracy", 1, order=40)
PERPLEXITY = MetricSpec("perplexity", "Perplexity", -1, ".1f", order=41, hub_name="perplexity")


def masked_scores(masked: int, right: int, nats: float) -> dict[str, float]:
    """Return the share of masked pieces that were told, and the perplexity of all of them from the sum of their nats.

    Returns:
        masked_accuracy and perplexity; nothing without masked pieces.
    """
    if not masked:
        return {}
    return {"masked_accuracy": right / masked, "perplexity": math.exp(min(nats / masked, MAX_NATS))}
