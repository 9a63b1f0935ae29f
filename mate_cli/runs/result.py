"""The result of a run: the one metric that searches and the summary of a sweep look at."""

from collections.abc import Mapping
from dataclasses import dataclass

from mate_cli.metrics.specs.names import MetricName


@dataclass(frozen=True)
class MonitoredResult:
    """The monitored metric of a run that has finished.

    Args:
        value: as it is recorded; a share is not in percent.
    """

    name: str
    value: float

    def __str__(self) -> str:
        """Name and value for people: `dev/f1 45.8`."""
        return f"{self.name} {MetricName.parse(self.name).spec.text(self.value)}"


def result_of(monitor: str, metrics: Mapping[str, float]) -> MonitoredResult | None:
    """Return the result of a run, None where it has none."""
    return MonitoredResult(monitor, metrics[monitor]) if monitor in metrics else None
