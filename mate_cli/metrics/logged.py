"""Metrics that a run logs while it trains, beside the scores of its task."""

from mate_cli.metrics.specs.spec import MetricSpec

LOSS = MetricSpec("loss", "Loss", -1, ".3g", order=900, importance=0)
LEARNING_RATE = MetricSpec("lr", "Learning rate", 0, ".3g", order=901, importance=0)
THROUGHPUT = (
    MetricSpec("examples_per_second", "Examples per second", 1, ".3g", order=902, importance=0),
    MetricSpec("tokens_per_second", "Tokens per second", 1, ",.0f", order=903, importance=0),
)
