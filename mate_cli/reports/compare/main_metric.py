"""The metric that runs are ranked by where nobody names one."""

from __future__ import annotations

from collections.abc import Iterable

from mate_cli.metrics.specs.names import MetricName


def main_metric(per_configuration: Iterable[Iterable[str]]) -> str | None:
    """Picks the metric to rank by: the one most configurations have; at a tie as `preference` says."""
    counts: dict[str, int] = {}
    for names in per_configuration:
        for name in names:
            if MetricName.parse(name).is_score:
                counts[name] = counts.get(name, 0) + 1
    return min(counts, key=lambda name: (-counts[name], *preference(name)), default=None)


def preference(name: str) -> tuple[bool, bool, int, int, str]:
    """Orders metrics by how well they sum up a run: test first, all questions first, then the metric's importance."""
    metric = MetricName.parse(name)
    return (metric.split != "test", bool(metric.part), -metric.spec.importance, metric.spec.order, name)
