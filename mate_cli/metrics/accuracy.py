"""Accuracy: the share of questions for which the right thing was chosen."""

from collections.abc import Collection, Mapping

from mate_cli.metrics.specs.spec import MetricSpec, MetricTable
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
