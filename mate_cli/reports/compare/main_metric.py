"""The metric that a comparison shows where none is named, and the one that ranks its rows, which is never of test."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mate_cli.metrics.specs.names import MetricName


def main_metric(per_configuration: Iterable[Iterable[str]]) -> str | None:
    """Pick the metric to show: of dev the one most configurations have, else of another split; then by `preference`."""
    counts: dict[str, int] = {}
    for names in per_configuration:
        for name in names:
            if MetricName.parse(name).is_score:
                counts[name] = counts.get(name, 0) + 1
    return min(counts, key=lambda name: (not_dev(name), -counts[name], *preference(name)), default=None)


def ranking_metric(metric: str | None, known: Collection[str]) -> str | None:
    """Return the metric that orders rows where another is shown: of one on test, the same on dev.

    Args:
        metric: that is shown.
        known: the metrics that any configuration has.

    Returns:
        None where it would be one of the test split.
    """
    if metric is None or MetricName.parse(metric).split != "test":
        return metric
    dev = f"dev{metric.removeprefix('test')}"
    return dev if dev in known else None


def not_dev(name: str) -> bool:
    """Say whether a metric is of another split than dev, so that no choice may rest on it."""
    return MetricName.parse(name).split != "dev"


def preference(name: str) -> tuple[bool, bool, int, int, str]:
    """Order metrics by how well they sum up a run: dev first, all questions first, then the metric's importance."""
    metric = MetricName.parse(name)
    return (not_dev(name), bool(metric.part), -metric.spec.importance, metric.spec.order, name)
