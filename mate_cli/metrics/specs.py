"""Declarations of metrics: name for people, direction, format, place in tables, and the names they are logged under.

A file of this package declares the metrics that it computes, and the subsets of the questions that it scores, as
values of its module: a `MetricSpec` or `SubsetSpec`, or a tuple of them. `metric_specs` and `subset_specs` find all
of them; a new metric is one new file. A `Metric` is one that a configuration adds to a task, from any module.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal, TypeVar

import mate_cli.metrics
from mate_cli.errors import ConfigError
from mate_cli.files.papers import find_packages
from mate_cli.tables.example import USER_SUBSET, TableExample

Direction = Literal[1, 0, -1]
"""1 where more is better, -1 where less is, 0 where nobody can say."""
Layout = Literal["one", "splits", "subsets", "accuracies"]
PERCENT = "percent"
LAST = 1000
USER_KIND = "by subset of the data"
"""The kind of all subsets that no `SubsetSpec` declares, such as those of a user's own files."""
SHARES = frozenset({"em", "f1", "accuracy", "precision", "recall", "mrr", "map", "exact", "match", "coverage", "hits"})
LESS_IS_BETTER = frozenset({"loss", "perplexity", "error", "seconds", "ms", "mb", "memory", "time", "failures"})
"""Words by which a metric without a spec is judged, as those are above."""


@dataclass(frozen=True)
class MetricTable:
    """A table of a comparison, in which metrics of one kind stand side by side.

    Args:
        title: of the table.
        layout: "one" table, and another one of the test split; a table per split, with the "splits"' subsets of
            the questions beside each other; the whole, then a table per kind of "subsets"; or the same for
            "accuracies", of which papers print one per system: subsets are of one split, under their names alone.
    """

    title: str
    layout: Layout = "one"


OTHER = MetricTable("Other metrics")


@dataclass(frozen=True)
class MetricSpec:
    """The name, format and direction of a metric, wherever it is shown.

    Args:
        name: as it is logged, without split and subset: `em` of `test/em/table`.
        title: its heading; short, for columns.
        direction: 1 where more is better, -1 where less is, 0 where nobody can say.
        format: "percent" for a share of one, else how Python is to format the value, such as ".3g".
        order: the place among other metrics, the least first; in this package no two have the same.
        importance: how well it sums up a run: comparisons rank by the metric with the most, by none with 0.
        table: the table of a comparison that it stands in.
        hub_name: its name on the Hugging Face hub, None where it has none.
    """

    name: str
    title: str
    direction: Direction
    format: str = PERCENT
    order: int = LAST
    importance: int = 1
    table: MetricTable = OTHER
    hub_name: str | None = None

    @property
    def is_share(self) -> bool:
        """True if the value is a share of one, printed in percent."""
        return self.format == PERCENT

    @property
    def scale(self) -> float:
        """The factor of a value before it is shown."""
        return 100.0 if self.is_share else 1.0

    def text(self, value: float) -> str:
        """Write a value for people: 0.4583 is 45.8 where it is a share."""
        return f"{100 * value:.1f}" if self.is_share else f"{value:{self.format}}"

    def spread_text(self, value: float) -> str:
        """Write a spread of values in their unit."""
        return f"{100 * value:.1f}" if self.is_share else f"{value:.2g}"

    def difference_text(self, value: float) -> str:
        """Write a difference of values with its sign, of shares in percentage points: +1.2, -0.3, 0.0."""
        text = f"{100 * value:+.1f}" if self.is_share else f"{value:+{self.format}}"
        return text if text.strip("+-0.,") else text.lstrip("+-")

    def is_better(self, value: float, best: float | None) -> bool:
        """Tell whether a value is better than the best so far; what is not a number never is."""
        if value != value:
            return False
        return best is None or self.direction * value > self.direction * best


class Score(float):
    """A mean over questions that carries their number; arithmetic with it returns a plain float.

    Args:
        value: the mean.
        questions: the number of questions in its denominator.
    """

    questions: int

    def __new__(cls, value: float, questions: int) -> Score:
        """Create the float, as it is immutable."""
        score = super().__new__(cls, value)
        score.questions = questions
        return score

    def __getnewargs__(self) -> tuple[float, int]:  # type: ignore[override]
        """Return the arguments of `__new__`, for pickle and copy."""
        return float(self), self.questions


ADDED: dict[str, MetricSpec] = {}
"""Specs of the metrics of other modules that are imported, by name."""


class Metric(ABC):
    """A score that is added to a task: `+task.metrics=[{_target_: my_module.MyMetric}]`, or `metrics` of its file."""

    spec: ClassVar[MetricSpec]
    """Its name and direction."""

    def __init_subclass__(cls) -> None:
        if spec := getattr(cls, "spec", None):
            ADDED.setdefault(spec.name, spec)

    @abstractmethod
    def compute(self, answers: Mapping[str, str], examples: Mapping[str, TableExample]) -> float:
        """Return the score of a split.

        Args:
            answers: the text of each answer, by example; one without a prediction is missing.
            examples: those whose answer is known, by name.
        """


@dataclass(frozen=True)
class SubsetSpec:
    """The name of a subset of the questions, wherever it is scored by itself.

    Args:
        name: as it is logged: `table` of `test/em/table`.
        title: its heading.
        kind: what it is a subset by, such as "by place of the answer".
        order: the place among other subsets, the least first; all questions have 0.
        many: the kind has so many subsets that a table has room for those of one split only.
    """

    name: str
    title: str
    kind: str
    order: int
    many: bool = True


Spec = TypeVar("Spec", MetricSpec, SubsetSpec)


def metric_specs() -> dict[str, MetricSpec]:
    """Return all metrics by name, in their order."""
    return _collect_specs(MetricSpec, tuple(mate_cli.metrics.__path__))


def subset_specs() -> dict[str, SubsetSpec]:
    """Return all subsets of the questions by name, in their order."""
    return _collect_specs(SubsetSpec, tuple(mate_cli.metrics.__path__))


def spec_of(name: str) -> MetricSpec:
    """Return the spec of a metric; one that nobody declared goes by its own name, and is judged by the words in it."""
    return _find_spec(MetricSpec, name, tuple(mate_cli.metrics.__path__)) or ADDED.get(name) or _guess_spec(name)


def subset_of(name: str) -> SubsetSpec:
    """Return the spec of a subset of the questions; a user-defined or undeclared one keeps its name as title."""
    declared = None if name.startswith(USER_SUBSET) else _find_spec(SubsetSpec, name, tuple(mate_cli.metrics.__path__))
    return declared or SubsetSpec(name, name.removeprefix(USER_SUBSET), USER_KIND, LAST, many=False)


def _list_modules(path: tuple[str, ...]) -> list[str]:
    """List the modules that declare metrics: those beside this package, then those of papers."""
    places = {mate_cli.metrics.__name__: list(path)}
    places |= {package: [str(folder)] for package, folder in find_packages("metrics").items()}
    return [f"{package}.{module.name}" for package, some in places.items() for module in pkgutil.iter_modules(some)]


@cache
def _find_spec(kind: type[Spec], name: str, path: tuple[str, ...]) -> Spec | None:
    """Look in the files that are loaded already, then in one after the other: a run needs few of them."""
    modules = sorted(_list_modules(path), key=lambda module: module not in sys.modules)
    return next((spec for module in modules for spec in _read_specs(kind, module) if spec.name == name), None)


@cache
def _collect_specs(kind: type[Spec], path: tuple[str, ...]) -> dict[str, Spec]:
    specs: dict[str, Spec] = {}
    for spec in (spec for module in _list_modules(path) for spec in _read_specs(kind, module)):
        if specs.setdefault(spec.name, spec) != spec:
            raise ValueError(f"{spec.name} is declared twice in {mate_cli.metrics.__name__}, with different values")
    return dict(sorted(specs.items(), key=lambda item: (item[1].order, item[0])))


def _read_specs(kind: type[Spec], module: str) -> Iterator[Spec]:
    for value in vars(importlib.import_module(module)).values():
        yield from (item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, kind))


def _guess_spec(name: str) -> MetricSpec:
    words = set(re.findall(r"[a-z]+\d*", name.lower()))
    title = name.replace("_", " ")
    if words & SHARES:
        return MetricSpec(name, title, 1)
    return MetricSpec(name, title, -1 if words & LESS_IS_BETTER else 0, ".3g", importance=0)


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
        return subset_of(self.part).title if self.part else WHOLE

    @property
    def kind(self) -> str:
        """The kind of the subset, such as `by words of the input`; empty for all questions."""
        return subset_of(self.part).kind if self.part else ""

    @property
    def is_crowded(self) -> bool:
        """True if there are so many subsets of this kind that a table has room for those of one split only."""
        return bool(self.part) and subset_of(self.part).many

    @property
    def is_alone(self) -> bool:
        """True if the subset is the only one of its kind."""
        return [spec.name for spec in subset_specs().values() if spec.kind == self.kind] == [self.part]

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


def subset_rank(name: str) -> int:
    """Return the place of a subset: 0 for all questions."""
    return subset_of(name).order if name else 0


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


LOSS = MetricSpec("loss", "Loss", -1, ".3g", order=900, importance=0)
LEARNING_RATE = MetricSpec("lr", "Learning rate", 0, ".3g", order=901, importance=0)
THROUGHPUT = (
    MetricSpec("examples_per_second", "Examples per second", 1, ".3g", order=902, importance=0),
    MetricSpec("tokens_per_second", "Tokens per second", 1, ",.0f", order=903, importance=0),
)
