"""Logged names, parsed, and the score that a run is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mate_cli.errors import ConfigError
from mate_cli.metrics.specs.spec import Direction, MetricSpec, spec_of, subset_of, subset_specs

SPLITS = ("dev", "test")
BASELINE = "baseline/"
WHOLE = "Total"


@dataclass(frozen=True)
class MetricName:
    """A logged name taken apart.

    Args:
        full: `test/em/table`, or `baseline/tfidf/test/em/table` of a baseline.
        split: `test`.
        score: `em`, the name of the metric.
        part: `table`, the subset of the questions; empty for all.
        baseline: `tfidf`; empty for the network's own score.
    """

    full: str
    split: str
    score: str
    part: str
    baseline: str = ""

    @classmethod
    def parse(cls, full: str) -> MetricName:
        """Take a name apart; without a slash the split is empty."""
        baseline, _, rest = full.removeprefix(BASELINE).partition("/") if full.startswith(BASELINE) else ("", "", full)
        split, _, rest = rest.partition("/") if "/" in rest else ("", "", rest)
        score, _, part = rest.partition("/")
        return cls(full, split, score, part, baseline)

    @property
    def spec(self) -> MetricSpec:
        """The declaration of the metric."""
        return spec_of(self.score)

    @property
    def direction(self) -> Direction:
        """1 when more is better, -1 when less is, 0 where nobody can say."""
        return self.spec.direction

    @property
    def is_share(self) -> bool:
        """True if the value is a share of one, printed in percent."""
        return self.spec.is_share

    @property
    def scale(self) -> float:
        """The factor of a value before it is shown."""
        return self.spec.scale

    @property
    def is_score(self) -> bool:
        """True if it sums up a run, so that runs may be ranked by it."""
        return self.spec.importance > 0 and not self.baseline

    @property
    def title(self) -> str:
        """A heading for people, such as `Test Hits@1` or `Dev EM, In-Table`."""
        words = f"{self.split.capitalize()} {self.short}".strip()
        return f"{words}, {self.part_title}" if self.part else words

    @property
    def title_with_unit(self) -> str:
        """The heading of an axis: `Test Hits@1 (%)`."""
        return f"{self.title} (%)" if self.is_share else self.title

    @property
    def short(self) -> str:
        """The metric alone, such as `Hits@1`, `EM` or `Loss`."""
        return self.spec.title

    @property
    def part_title(self) -> str:
        """A heading for the subset: `In-Table`, `Q1`, `129-256 words`; `Total` for all questions."""
        return subset_title(self.part) if self.part else WHOLE

    @property
    def kind(self) -> str:
        """The kind of the subset, such as `by words of the input`; empty for all questions and unknown subsets."""
        spec = subset_of(self.part)
        return spec.kind if spec else ""

    @property
    def is_crowded(self) -> bool:
        """True if there are so many subsets of this kind that a table has room for those of one split only."""
        spec = subset_of(self.part)
        return bool(spec and spec.many)

    @property
    def is_alone(self) -> bool:
        """True if the subset is the only one of its kind."""
        return bool(self.kind) and not self.is_crowded

    def rank(self) -> tuple[int, int, int, str]:
        """Return the place in a table: dev before test, then the subset, then the metric's own order."""
        place = SPLITS.index(self.split) if self.split in SPLITS else len(SPLITS)
        return (place, subset_rank(self.part), self.spec.order, self.full)


def spec_to_follow(full: str) -> MetricSpec:
    """Return the spec of a metric by which weights or configurations are chosen.

    Raises:
        ConfigError: nobody says which way it is better.
    """
    name = MetricName.parse(full)
    if not name.direction:
        raise ConfigError(
            f"metric {full} declares no direction",
            where="the monitored metric",
            remedy=f"Declare a MetricSpec named {name.score} in a file of mate_cli/metrics",
        )
    return name.spec


def subset_title(name: str) -> str:
    """Return a heading for a subset of the questions."""
    spec = subset_of(name)
    return spec.title if spec else name.replace("_", " ")


def subset_rank(name: str) -> int:
    """Return the place of a subset: 0 for all questions, the least of all for one that nobody declared."""
    if not name:
        return 0
    spec = subset_of(name)
    return spec.order if spec else min(known.order for known in subset_specs().values()) - 1


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
