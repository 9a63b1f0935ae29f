"""The base of all systems, which answer questions with the predictions of finished stages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from mate_cli.data.loading.cache import digest_examples
from mate_cli.errors import ConfigError
from mate_cli.lit_modules.base import TableTask
from mate_cli.metrics.exact_match import score_answers
from mate_cli.metrics.hits_at_k import hits_at_k
from mate_cli.metrics.subsets import group_by_source
from mate_cli.pipelines.assembly import Parts
from mate_cli.pipelines.evaluation.evaluation import SAME_DATA, predict, save_predictions
from mate_cli.runs import ranks
from mate_cli.runs.configuration import RunConfig
from mate_cli.runs.record import RunFolder
from mate_cli.tables.example import Coordinates, TableExample

PARAMETERS = "system.json"
"""File with the numbers that a system has learnt from the development split."""
Task = TypeVar("Task", bound=TableTask[Any, Any])


@dataclass(frozen=True)
class TrainedStage:
    """A finished stage with its best weights."""

    name: str
    parts: Parts
    config: RunConfig

    def predict(self, examples: Sequence[TableExample], name: str) -> list[Any]:
        """Predict any examples; `name` is what the progress bar calls them."""
        loader = self.parts.data.loader_of(examples, name)
        ranks.require_agreement({name: digest_examples(examples)[:12]}, SAME_DATA)
        return predict(self.parts.task, loader, self.config)

    def task_of(self, kind: type[Task]) -> Task:
        """Return its task, as one of this class.

        Raises:
            ConfigError: it is of another.
        """
        if not isinstance(self.parts.task, kind):
            raise ConfigError(
                f"{type(self.parts.task).__name__} is not a {kind.__name__}",
                where=f"stages.{self.name}.task",
                remedy=f"Name an experiment whose task is a {kind.__name__}",
            )
        return self.parts.task


@dataclass(frozen=True)
class SystemAnswers:
    """Answers of a system to questions.

    Args:
        texts: answer by question; one without an answer is missing.
        metrics: what else is known of the questions whose answers are known, such as hits@1; fractions by name.
        cells: the cells that were read, by question, the one that the answer is from first.
    """

    texts: Mapping[str, str]
    metrics: Mapping[str, float] = field(default_factory=dict)
    cells: Mapping[str, Coordinates] = field(default_factory=dict)


class System(ABC):
    """Joins the predictions of stages that were trained apart.

    Args:
        compared_by: the stage whose network tells runs of this system apart; None where the system itself does.

    Attributes:
        stages: the names of the stages that it asks for.
        monitor: the metric that counts for the whole, in searches and summaries.
    """

    stages: ClassVar[tuple[str, ...]]
    monitor: ClassVar[str] = "dev/f1"

    def __init__(self, compared_by: str | None = None) -> None:
        self.compared_by = compared_by

    def check(self, names: Sequence[str]) -> None:
        """Refuse stages among which one that is named is missing.

        Raises:
            ConfigError: naming it.
        """
        if missing := [name for name in self.stages if name not in names]:
            raise ConfigError(
                f"{type(self).__name__} needs stages named {', '.join(missing)}, but the stages are {', '.join(names)}",
                where="stages",
                remedy="Rename the stages, or choose another system",
            )
        if self.compared_by not in (None, *names):
            raise ConfigError(
                f"unknown stage {self.compared_by!r}",
                where="system.compared_by",
                remedy=f"Choose from {', '.join(names)}",
            )

    @abstractmethod
    def answer(self, stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str) -> SystemAnswers:
        """Answer questions."""

    @property
    def parameters(self) -> Mapping[str, float]:
        """Numbers that it has learnt from a development split, as a run keeps them; may be none."""
        return {}

    def with_parameters(self, parameters: Mapping[str, float]) -> System:
        """Return the same system with the numbers that one like it has learnt."""
        return self

    def learn(
        self, stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str
    ) -> tuple[System, SystemAnswers]:
        """Learn of the development split what there is to learn, and answer it; the arguments are those of `answer`."""
        return self, self.answer(stages, examples, name)

    def score(self, answered: SystemAnswers, examples: Sequence[TableExample]) -> dict[str, float]:
        """Return all metrics, with exact match and F1 of the answers; none where no answer is known."""
        if not any(example.answer for example in examples):
            return {}
        return {**answered.metrics, **score_answers(answered.texts, {e.example_id: e for e in examples})}


def first_hits(cells: Mapping[str, Coordinates], examples: Mapping[str, TableExample]) -> dict[str, float]:
    """Return Hits@1 of the first cell that was found for each question; nothing where no answer is known."""
    known = {key: example.answer.coordinates for key, example in examples.items() if example.answer}
    return hits_at_k(cells, known, group_by_source(examples), ks=(1,)) if known else {}


def joint_throughput(stages: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Add up the cost of an example that passes through all stages: seconds and operations, where all have them."""
    joint: dict[str, float] = {}
    if all(stage.get("examples_per_second") for stage in stages):
        joint["examples_per_second"] = 1 / sum(1 / stage["examples_per_second"] for stage in stages)
    if all("training_flops_per_example" in stage for stage in stages):
        joint["training_flops_per_example"] = sum(stage["training_flops_per_example"] for stage in stages)
    return joint


def answer_split(
    system: System, stages: Mapping[str, TrainedStage], split: str, to: RunFolder
) -> tuple[dict[str, float], Sequence[TableExample]]:
    """Let a system answer a split and score it; its predictions go into a folder."""
    examples = stages[system.stages[0]].parts.data.questions(split)
    answered = system.answer(stages, examples, split)
    save_answers(to, split, system, examples, answered)
    return system.score(answered, examples), examples


def save_answers(
    folder: RunFolder, split: str, system: System, examples: Sequence[TableExample], answered: SystemAnswers
) -> None:
    """Write predictions/<split>.json."""

    def score(example: TableExample) -> dict[str, float]:
        return system.score(replace(answered, metrics={}), [example])

    details = {name: {"cells": [[*cell] for cell in cells]} for name, cells in answered.cells.items()}
    save_predictions(folder, split, examples, answered.texts, score, details)
