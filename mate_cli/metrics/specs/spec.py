"""Declarations of metrics: name for people, direction, format, and place in tables.

A file of this package declares the metrics that it computes, and the subsets of the questions that it scores, as
values of its module: a `MetricSpec` or `SubsetSpec`, or a tuple of them. `metric_specs` and `subset_specs` find all
of them; a new metric is one new file. A `Metric` is one that a configuration adds to a task, from any module.
"""

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
from mate_cli.files.papers import find_packages
from mate_cli.tables.example import Example

Direction = Literal[1, 0, -1]
"""1 where more is better, -1 where less is, 0 where nobody can say."""
Layout = Literal["one", "splits", "subsets", "accuracies"]
PERCENT = "percent"
LAST = 1000
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
        order: the place among other metrics, the least first.
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


class Metric(ABC):
    """A score that is added to a task by its configuration: `task.metrics: [{_target_: my_module.MyMetric}]`."""

    spec: ClassVar[MetricSpec]
    """Its name and direction."""

    @abstractmethod
    def compute(self, answers: Mapping[str, str], examples: Mapping[str, Example]) -> float:
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
    return _find_spec(MetricSpec, name, tuple(mate_cli.metrics.__path__)) or _find_added_spec(name) or _guess_spec(name)


def subset_of(name: str) -> SubsetSpec | None:
    """Return the spec of a subset of the questions; None for one that nobody declared."""
    return _find_spec(SubsetSpec, name, tuple(mate_cli.metrics.__path__))


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


def _find_added_spec(name: str) -> MetricSpec | None:
    """Return the spec of a metric of another module, once that is imported."""
    specs = (getattr(kind, "spec", None) for kind in _walk_subclasses(Metric))
    return next((spec for spec in specs if spec is not None and spec.name == name), None)


def _walk_subclasses(kind: type) -> Iterator[type]:
    """Yield all classes that inherit from one."""
    heirs: list[type] = kind.__subclasses__()
    for heir in heirs:
        yield heir
        yield from _walk_subclasses(heir)


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
