"""What a configuration cost: size, speed, work, time and memory, for every place that shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.statistics import Summary
from mate_cli.reports.format import NOTHING, count_text, duration_text, rate_text


@dataclass(frozen=True)
class Cost:
    """One column of costs.

    Args:
        name: its heading.
        title: the name in full, for axes.
        kind: what its axis shows: count, memory or duration.
        key: the entry of `record.json`.
        inside: the mapping that holds the entry, None for the record itself.
        write: how a value is written.
    """

    name: str
    title: str
    kind: str
    key: str
    inside: str | None
    write: Callable[[float], str]

    @property
    def heading(self) -> str:
        """The name in two lines, for narrow columns: `Examples`, `per second`."""
        first, _, last = self.name.replace("/s", " per second").replace("/", " per ").partition(" ")
        return f"{first}\n{last}" if last else f"\n{first}"

    def of(self, group: Configuration) -> Summary | None:
        """Sums the cost up over the runs that count; a zero stands for a cost that was not measured."""
        summary = group.cost(self.key, self.inside)
        return summary if summary and summary.high > 0 else None

    def text(self, group: Configuration) -> str:
        """Writes the cost of a configuration."""
        summary = self.of(group)
        return NOTHING if summary is None else self.write(summary.center)


def flops_text(value: float) -> str:
    """Writes floating point operations with a unit: 3.2 G, 1.4 T."""
    for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"


COSTS = (
    Cost("Parameters", "Parameters", "count", "parameters", None, count_text),
    Cost("Examples/s", "Examples per second", "count", "examples_per_second", "throughput", rate_text),
    Cost(
        "FLOPs/example",
        "Training FLOPs per example",
        "count",
        "training_flops_per_example",
        "throughput",
        flops_text,
    ),
    Cost("Wall time", "Wall time", "duration", "wall_seconds", None, duration_text),
    Cost(
        "Peak memory", "Peak memory", "memory", "peak_memory_mb", None, lambda megabytes: f"{megabytes / 1000:.1f} GB"
    ),
)


def recorded_costs(groups: Sequence[Configuration]) -> tuple[Cost, ...]:
    """Returns the costs that any of the configurations recorded."""
    return tuple(cost for cost in COSTS if any(cost.of(group) for group in groups))
