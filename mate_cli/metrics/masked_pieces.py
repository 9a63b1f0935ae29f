"""Accuracy and perplexity of masked word pieces."""

import math

from mate_cli.metrics.specs.spec import MetricSpec

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
