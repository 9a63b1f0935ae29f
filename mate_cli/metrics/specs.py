"""Declarations of metrics: name, title, direction, format and position in tables.

A module of this package declares its metrics and subsets of questions as module variables: a `MetricSpec`, a
`SubsetSpec`, or a tuple of specs. `metric_specs` and `subset_specs` collect all of them,
so a new metric needs only a new file. A `Metric` is a user-defined metric that a configuration adds to a task.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar

import mate_cli.metrics
from mate_cli.errors import ConfigError
from mate_cli.files.papers import find_packages
from mate_cli.tables.example import USER_SUBSET, TableExample

Direction = Literal[1, 0, -1]
"""1 if higher is better, -1 if lower is better, 0 if unknown."""
Layout = Literal["one", "splits", "subsets", "accuracies"]
PERCENT = "percent"
DEFAULT_ORDER = 1000
USER_KIND = "by subset of the data"
"""Category of subsets that no `SubsetSpec` declares, such as subsets in user data."""
RECORDED_FORMAT = re.compile(r"percent|,?(\.\d\d?)?[efg%]")
"""Values of `MetricSpec.format` that are accepted from a record, because they format any number as a short text."""


@dataclass(frozen=True)
class MetricTable:
    """A table of a comparison report, whose columns are related metrics.

    Args:
        title: title of the table.
        layout: "one": one table, and another table of the test split. "splits": one table per split, with subsets of
            questions side by side. "subsets": a table of all questions, then one table per category of subsets.
            "accuracies": like "subsets", but for metrics of which papers report one value per system: subset tables
            contain a single split, and their columns are named after the subsets only.
    """

    title: str
    layout: Layout = "one"


OTHER = MetricTable("Other metrics")


@dataclass(frozen=True)
class MetricSpec:
    """Declaration of a metric: its name, title, direction, format and position in tables.

    Args:
        name: logged name without split and subset, such as `em` of `test/em/table`.
        title: short title, for column headings.
        direction: 1 if higher is better, -1 if lower is better, 0 if unknown.
        format: "percent" for a fraction from 0 to 1, else a Python format specification, such as ".3g".
        order: sort key among metrics, ascending. Unique within this package.
        importance: suitability as the summary of a run. Comparisons rank by the metric with the highest importance, and
            never by a metric with importance 0.
        table: table of comparison reports that contains the metric.
        hub_name: name of the metric on the Hugging Face Hub. None if the Hub has no such metric.
    """

    name: str
    title: str
    direction: Direction
    format: str = PERCENT
    order: int = DEFAULT_ORDER
    importance: int = 1
    table: MetricTable = OTHER
    hub_name: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Convert the declaration of a user-defined metric to JSON, for the record of a run."""
        return {key: getattr(self, key) for key in ("title", "direction", "format", "importance")}

    @property
    def is_share(self) -> bool:
        """True if the metric is a fraction (0 to 1), which tables show in percent."""
        return self.format == PERCENT

    @property
    def scale(self) -> float:
        """Factor by which values of the metric are multiplied for display: 100 for fractions."""
        return 100.0 if self.is_share else 1.0

    def text(self, value: float) -> str:
        """Format a value of the metric for display: 0.4583 as "45.8" if it is a fraction."""
        return f"{100 * value:.1f}" if self.is_share else f"{value:{self.format}}"

    def spread_text(self, value: float) -> str:
        """Format the dispersion of scores, such as 0.012 as "1.2" percentage points for fractions."""
        return f"{100 * value:.1f}" if self.is_share else f"{value:.2g}"

    def difference_text(self, value: float) -> str:
        """Format a score difference with its sign: +1.2, -0.3, 0.0.

        Fractions are in percentage points.
        """
        text = f"{100 * value:+.1f}" if self.is_share else f"{value:+{self.format}}"
        return text if text.strip("+-0.,") else text.lstrip("+-")

    def is_better(self, value: float, record: float | None) -> bool:
        """Return whether `value` is better than the best previous value `record`. NaN never is."""
        if value != value:
            return False
        return record is None or self.direction * value > self.direction * record


class Score(float):
    """Mean score that also stores the number of questions, as a `float` subclass.

    Arithmetic returns a plain float.

    Args:
        value: mean.
        questions: number of questions in the denominator. None if unknown.
    """

    questions: int | None

    def __new__(cls, value: float, questions: int | None) -> Score:
        """Create a float that also stores the number of questions of the mean."""
        score = super().__new__(cls, value)
        score.questions = questions
        return score

    def __getnewargs__(self) -> tuple[float, int | None]:  # type: ignore[override]
        """Return the arguments of `__new__`, for pickle and copy."""
        return float(self), self.questions


USER_METRICS: dict[str, MetricSpec] = {}
"""Specs of user-defined metrics in imported modules, by name. Records contain the specs of their metrics."""


class Metric(ABC):
    """Base class of user-defined metrics of a task.

    Add one by `+task.metrics=[{_target_: my_module.MyMetric}]`, or by `metrics` in the file of the task.
    """

    spec: ClassVar[MetricSpec]
    """The declaration of the metric, with its name and direction."""

    def __init_subclass__(cls) -> None:
        if spec := getattr(cls, "spec", None):
            USER_METRICS.setdefault(spec.name, spec)

    @abstractmethod
    def compute(self, answers: Mapping[str, str], examples: Mapping[str, TableExample]) -> float:
        """Compute the score of a split from the predicted answers and the gold answers.

        Args:
            answers: text of each predicted answer, by example id. Examples without a prediction are missing.
            examples: examples whose answer is known, by id.
        """


@dataclass(frozen=True)
class SubsetSpec:
    """The declaration of a subset of the questions that is scored separately.

    Args:
        name: logged name, such as `table` of `test/em/table`.
        title: column heading.
        kind: category of the subset, such as "by place of the answer".
        order: sort key among subsets, ascending. The set of all questions has 0.
        many: whether the category has so many subsets that a table can show only one split.
    """

    name: str
    title: str
    kind: str
    order: int
    many: bool = True


Spec = TypeVar("Spec", MetricSpec, SubsetSpec)
Specs = dict[str, MetricSpec]
"""Declarations of the user-defined metrics of a run, by name."""


def read_specs(entries: Mapping[str, object]) -> Specs:
    """Read the declarations of user-defined metrics from a record, by name.

    Invalid entries are skipped.

    Args:
        entries: results of `MetricSpec.to_json`, by name of the metric.
    """
    specs = {}
    for name, entry in entries.items():
        match entry:
            case {"title": str(title), "direction": -1 | 0 | 1 as sign, "format": str(text), "importance": int(rank)}:
                if title.isprintable() and RECORDED_FORMAT.fullmatch(text):
                    specs[name] = MetricSpec(name, title, sign, text, importance=rank)
    return specs


def metric_specs() -> dict[str, MetricSpec]:
    """Return the `MetricSpec` of every metric by name, sorted by `order`.

    The metrics are those of this package and of papers.
    """
    return _collect_specs(MetricSpec, tuple(mate_cli.metrics.__path__))


def subset_specs() -> dict[str, SubsetSpec]:
    """Return {name: declaration} of all subsets of questions that metrics use, in display order."""
    return _collect_specs(SubsetSpec, tuple(mate_cli.metrics.__path__))


def spec_of(name: str) -> MetricSpec:
    """Return the declaration (`MetricSpec`) of a metric, or a default for undeclared metrics.

    An undeclared metric has no direction, and ranks no runs.
    """
    declared = metric_specs().get(name) or USER_METRICS.get(name)
    return declared or MetricSpec(name, name.replace("_", " "), 0, ".3g", importance=0)


def subset_of(name: str) -> SubsetSpec:
    """Return the declaration of a question subset, or a default whose title is its name."""
    declared = None if name.startswith(USER_SUBSET) else subset_specs().get(name)
    return declared or SubsetSpec(name, name.removeprefix(USER_SUBSET), USER_KIND, DEFAULT_ORDER, many=False)


@cache
def _collect_specs(kind: type[Spec], path: tuple[str, ...]) -> dict[str, Spec]:
    """Collect the metric or subset specs that mate's metric modules and papers declare.

    `path` has the folders of `mate_cli.metrics`.
    """
    folders = {mate_cli.metrics.__name__: path}
    folders |= {package: (str(folder),) for package, folder in find_packages("metrics").items()}
    specs: dict[str, Spec] = {}
    for package, search_path in folders.items():
        for module in pkgutil.iter_modules(search_path):
            for value in vars(importlib.import_module(f"{package}.{module.name}")).values():
                for spec in value if isinstance(value, tuple) else (value,):
                    if isinstance(spec, kind) and specs.setdefault(spec.name, spec) != spec:
                        problem = f"{spec.name} is declared twice in {mate_cli.metrics.__name__}, with different values"
                        raise ValueError(problem)
    return dict(sorted(specs.items(), key=lambda item: (item[1].order, item[0])))


SPLITS = ("dev", "test")
BASELINE = "baseline/"
ALL_QUESTIONS = "Total"


@dataclass(frozen=True)
class MetricName:
    """Parsed name of a logged metric, such as `test/em/table`.

    Args:
        full: logged name, such as `test/em/table`, or `baseline/tfidf/test/em/table` of a baseline.
        split: split, such as `test`.
        score: name of the metric, such as `em`.
        part: subset of the questions, such as `table`. Empty for all questions.
        baseline: name of the baseline, such as `tfidf`. Empty for a metric of the network.
        record_spec: declaration of a user-defined metric in the record of its run. None for other metrics.
    """

    full: str
    split: str
    score: str
    part: str
    baseline: str = ""
    record_spec: MetricSpec | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, full: str, specs: Specs | None = None) -> MetricName:
        """Parse the logged name of a metric, such as `test/em/table`. `loss` has no split.

        Args:
            full: logged name.
            specs: declarations of user-defined metrics in the record of a run, by name.
        """
        baseline, _, remainder = (
            full.removeprefix(BASELINE).partition("/") if full.startswith(BASELINE) else ("", "", full)
        )
        split, _, remainder = remainder.partition("/") if "/" in remainder else ("", "", remainder)
        score, _, part = remainder.partition("/")
        return cls(full, split, score, part, baseline, (specs or {}).get(score))

    @property
    def spec(self) -> MetricSpec:
        """The `MetricSpec` of the metric, which has its title, direction and format."""
        return self.record_spec or spec_of(self.score)

    @property
    def is_score(self) -> bool:
        """True if the metric may rank runs: not of a baseline, and with an importance above 0."""
        return self.spec.importance > 0 and not self.baseline

    @property
    def title(self) -> str:
        """The human-readable title, such as `Test Hits@1` or `Dev EM, In-Table`."""
        words = f"{self.split.capitalize()} {self.spec.title}".strip()
        return f"{words}, {self.part_title}" if self.part else words

    @property
    def title_with_unit(self) -> str:
        """The title of a plot axis, such as `Test Hits@1 (%)`."""
        return f"{self.title} (%)" if self.spec.is_share else self.title

    @property
    def part_title(self) -> str:
        """Title of the question subset in tables, such as `In-Table`, `Total` for all questions."""
        return subset_of(self.part).title if self.part else ALL_QUESTIONS

    @property
    def kind(self) -> str:
        """Category of the question subset, such as `by words of the input`, "" for all questions."""
        return subset_of(self.part).kind if self.part else ""

    @property
    def is_crowded(self) -> bool:
        """True if the subset's category is so large that a table shows only one split of it."""
        return bool(self.part) and subset_of(self.part).many

    @property
    def is_alone(self) -> bool:
        """True if the subset is the only subset of its category."""
        return [spec.name for spec in subset_specs().values() if spec.kind == self.kind] == [self.part]

    def rank(self) -> tuple[int, int, int, str]:
        """Return the sort key of the metric in tables.

        It consists of the split (dev before test), the subset, the order of the metric, and the full name.
        """
        split_rank = SPLITS.index(self.split) if self.split in SPLITS else len(SPLITS)
        return (split_rank, subset_rank(self.part), self.spec.order, self.full)


def spec_to_follow(full: str) -> MetricSpec:
    """Return the declaration of the monitored metric, which must have a direction.

    Raises:
        ConfigError: the direction of the metric is unknown.
    """
    name = MetricName.parse(full)
    if not name.spec.direction:
        hint = f"Declare a MetricSpec named {name.score} in TaskSpec.metrics, or in a file of mate_cli/metrics"
        raise ConfigError(f"metric {full} declares no direction", where="the monitored metric", remedy=hint)
    return name.spec


def subset_rank(name: str) -> int:
    """Return the sort key of a question subset in tables, 0 for the set of all questions."""
    return subset_of(name).order if name else 0


@dataclass(frozen=True)
class MonitoredResult:
    """Final value of the monitored metric of a run, such as 0.458 for `dev/f1`.

    Args:
        name: logged name of the metric, such as `dev/f1`.
        value: recorded value. Fractions are not in percent.
    """

    name: MetricName
    value: float

    def __str__(self) -> str:
        """Format name and value, such as `dev/f1 45.8`."""
        return f"{self.name.full} {self.name.spec.text(self.value)}"


def result_of(monitor: str, metrics: Mapping[str, float], specs: Specs | None = None) -> MonitoredResult | None:
    """Return the final value of the metric `monitor`, or None if the run has none.

    Args:
        monitor: logged name of the metric.
        metrics: recorded metrics.
        specs: recorded declarations of user-defined metrics.
    """
    return MonitoredResult(MetricName.parse(monitor, specs), metrics[monitor]) if monitor in metrics else None


LOSS = MetricSpec("loss", "Loss", -1, ".3g", order=900, importance=0)
LEARNING_RATE = MetricSpec("lr", "Learning rate", 0, ".3g", order=901, importance=0)
THROUGHPUT = (
    MetricSpec("examples_per_second", "Examples per second", 1, ".3g", order=902, importance=0),
    MetricSpec("tokens_per_second", "Tokens per second", 1, ",.0f", order=903, importance=0),
)
