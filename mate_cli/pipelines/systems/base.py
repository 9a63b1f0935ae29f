"""Base class of systems, which answer questions from the predictions of trained stages."""

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
from mate_cli.pipelines.evaluation.evaluation import SAME_DATA, predict, save_predictions
from mate_cli.pipelines.inference.tables import LoadedModel
from mate_cli.runs import ranks
from mate_cli.runs.record import RunFolder
from mate_cli.tables.example import Coordinates, TableExample

PARAMETERS = "system.json"
"""File with the parameters that a system fitted on the dev split."""
Task = TypeVar("Task", bound=TableTask[Any, Any])


class TrainedStage(LoadedModel):
    """A trained stage of a system, with the best checkpoint of its network and task."""

    def predict(self, examples: Sequence[TableExample], name: str) -> list[Any]:
        """Compute the predictions of this stage's trained task for examples.

        `name` is the label of the progress bar.
        """
        loader = self.parts.data.build_eval_loader(examples, name)
        ranks.require_agreement({name: digest_examples(examples)[:12]}, SAME_DATA)
        return predict(self.parts.task, loader, self.settings)

    def task_of(self, kind: type[Task]) -> Task:
        """Return the task of the stage, after checking that it is an instance of `kind`.

        Raises:
            ConfigError: the task has another class.
        """
        if not isinstance(self.task, kind):
            problem = f"{type(self.task).__name__} is not a {kind.__name__}"
            hint = f"Name an experiment whose task is a {kind.__name__}"
            raise ConfigError(problem, where=f"stages.{self.name}.task", remedy=hint)
        return self.task


@dataclass(frozen=True)
class SystemAnswers:
    """The answers of a system to questions, with the cells it read and additional metrics.

    Args:
        texts: answer by example id. Unanswered questions are missing.
        metrics: additional metrics of questions with gold answers, such as hits@1; fractions by name.
        cells: cells that were read, by example id; the cell with the answer first.
    """

    texts: Mapping[str, str]
    metrics: Mapping[str, float] = field(default_factory=dict)
    cells: Mapping[str, Coordinates] = field(default_factory=dict)


class System(ABC):
    """Base class of systems, which combine the predictions of separately trained stages.

    Args:
        compared_by: name of the stage whose network labels the runs of this system in comparisons. None: the system
            itself.

    Attributes:
        stages: names of the required stages.
        monitor: main metric of the system, in sweeps and summaries.
    """

    stages: ClassVar[tuple[str, ...]]
    monitor: ClassVar[str] = "dev/f1"

    def __init__(self, compared_by: str | None = None) -> None:
        self.compared_by = compared_by

    def check(self, names: Sequence[str]) -> None:
        """Check that the stages of a run include the stages that this system combines.

        The stage `compared_by` is required too, if one is set.

        Raises:
            ConfigError: a stage is missing.
        """
        if absent := ", ".join(name for name in self.stages if name not in names):
            problem = f"{type(self).__name__} needs stages named {absent}, but the stages are {', '.join(names)}"
            raise ConfigError(problem, where="stages", remedy="Rename the stages, or choose another system")
        if self.compared_by not in (None, *names):
            problem, hint = f"unknown stage {self.compared_by!r}", f"Choose from {', '.join(names)}"
            raise ConfigError(problem, where="system.compared_by", remedy=hint)

    @abstractmethod
    def answer(self, stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str) -> SystemAnswers:
        """Answer questions by combining the predictions of all stages.

        Args:
            stages: trained stages by name.
            examples: examples with the questions.
            name: label of the examples in the progress bar.
        """

    @property
    def parameters(self) -> Mapping[str, float]:
        """Parameters of the system that were fitted on the dev split, to be saved with the run.

        Empty by default.
        """
        return {}

    def with_parameters(self, parameters: Mapping[str, float]) -> System:
        """Return a copy of the system that answers with the given fitted parameters.

        The base class has no parameters and returns itself.
        """
        return self

    def learn(
        self, stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str
    ) -> tuple[System, SystemAnswers]:
        """Tune the parameters of the system on the dev split, then answer the dev questions.

        The base class has no parameters and only answers.

        Args:
            stages: trained stages by name.
            examples: examples of the dev split.
            name: label of the examples in the progress bar.

        Returns:
            The system with the fitted parameters, and its answers.
        """
        return self, self.answer(stages, examples, name)

    def score(self, answered: SystemAnswers, examples: Sequence[TableExample]) -> dict[str, float]:
        """Compute exact match and F1 of a system's answers, and add the metrics of `answered`.

        The result is empty if no example has a gold answer.

        Args:
            answered: answers of the system.
            examples: questions, possibly without gold answers.
        """
        if not any(example.answer for example in examples):
            return {}
        return {**answered.metrics, **score_answers(answered.texts, {e.example_id: e for e in examples})}


def first_hits(cells: Mapping[str, Coordinates], examples: Mapping[str, TableExample]) -> dict[str, float]:
    """Return Hits@1 of the first predicted cell of each question, or {} without gold answers."""
    gold = {key: example.answer.coordinates for key, example in examples.items() if example.answer}
    return hits_at_k(cells, gold, group_by_source(examples), ks=(1,)) if gold else {}


def joint_throughput(stages: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Compute the joint throughput of stages that process each example in sequence.

    The result contains the examples per second and the training FLOPs per example. A value is included only if every
    stage has measured it.

    Args:
        stages: throughput of each stage, as stored in `RunRecord.throughput`.
    """
    joint: dict[str, float] = {}
    if all(stage.get("examples_per_second") for stage in stages):
        joint["examples_per_second"] = 1 / sum(1 / stage["examples_per_second"] for stage in stages)
    if all("training_flops_per_example" in stage for stage in stages):
        joint["training_flops_per_example"] = sum(stage["training_flops_per_example"] for stage in stages)
    return joint


def answer_split(
    system: System, stages: Mapping[str, TrainedStage], split: str, to: RunFolder
) -> tuple[dict[str, float], Sequence[TableExample]]:
    """Answer and score the questions of a split with a system, and save its predictions.

    Args:
        system: system that answers.
        stages: trained stages by name.
        split: name of the split.
        to: run folder for the predictions.

    Returns:
        Metrics by name, and the examples of the split.
    """
    examples = stages[system.stages[0]].parts.data.questions(split)
    answers = system.answer(stages, examples, split)
    save_answers(to, split, system, examples, answers)
    return system.score(answers, examples), examples


def save_answers(
    folder: RunFolder, split: str, system: System, examples: Sequence[TableExample], answered: SystemAnswers
) -> None:
    """Write the answers, scores and table cells of a system to predictions/<split>.json.

    Args:
        folder: run folder.
        split: name of the split.
        system: system that scores each answer.
        examples: examples of the split.
        answered: answers of the system.
    """

    def score(example: TableExample) -> dict[str, float]:
        return system.score(replace(answered, metrics={}), [example])

    details = {name: {"cells": [[*cell] for cell in cells]} for name, cells in answered.cells.items()}
    save_predictions(folder, split, examples, answered.texts, score, details)
