"""The base of all tasks: a head on a network, its loss, its predictions and their scores; torch alone."""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from statistics import fmean
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mate_cli.errors import ConfigError
from mate_cli.metrics.pruning import Pruning
from mate_cli.metrics.specs import Metric, Score
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, TaskContext
from mate_cli.tables.example import NOT_GIVEN, UNUSABLE, Coordinates, TableExample
from mate_cli.tokenization.layout import TableBatch, gather_tokens
from mate_cli.tokenization.serializers.serializer import OF_ANSWERS, Label

NO_ANSWER = "no answer"
COMPUTED = "computed numbers"
"""Kind of answers in `TableTask.loss_counts` that no cell contains."""


class HasExampleId(Protocol):
    """Anything about one example."""

    @property
    def example_id(self) -> str:
        """The example."""


ExampleT = TypeVar("ExampleT", bound=TableExample)
Prediction = TypeVar("Prediction", bound=HasExampleId)
Share = TypeVar("Share")
Training = Callable[[], Sequence[ExampleT]]
"""Reads the examples that may be learnt from."""


@dataclass(frozen=True)
class Selection:
    """The cells or nodes that a prediction points at, for people to see.

    Args:
        cells: (row, column) of the selected body cells, both from 0.
        probabilities: of each of them.
        aggregation: what is done with them, one of `AGGREGATIONS`.
        confidence: in the answer as a whole, from 0 to 1; to be calibrated, as what nothing was learnt about, such as
            the column of a computed number, makes it small.
        is_null: the prediction says that nothing in the table answers the question.
    """

    cells: Coordinates
    probabilities: tuple[float, ...]
    confidence: float
    aggregation: str = "none"
    is_null: bool = False

    def share_right(self, calibration: Callable[[float], float] | None) -> float:
        """Return the calibrated confidence; without a calibration the network's own probability of the cells."""
        if calibration is not None:
            return calibration(self.confidence)
        return fmean(self.probabilities) if self.probabilities else self.confidence


@dataclass(frozen=True)
class TableAnswerSpec:
    """The way in which a task answers about any table.

    Args:
        question: an example of what can be asked of it.
        verdict: the answer is a verdict on the table, and not of its cells.
    """

    question: str = "which region sold most?"
    verdict: bool = False


@dataclass(frozen=True)
class TaskSpec:
    """The declaration of a task, known before any network is built.

    Args:
        monitor: the validation metric that chooses the best weights; its `MetricSpec` says whether more or less is
            better.
        label: what an encoding must mark for it (`Serializer.marks`); None where it learns from no mark.
        encoding: what to type behind `encoding=` for one that does; others may do so too.
        table_answers: how it answers about any table; None where its predictions say nothing that people could look up
            in one.
        transformers_class: the class of transformers that does the same with a TAPAS.
        auto_class: what transformers calls such a task, as in `AutoModelForMaskedLM`; None where it has no name for it.
        uses_pooler: the loss sees `EncoderOutput.pooled`; if not, the pooler stays as it is.
    """

    monitor: str
    label: Label | None = None
    encoding: str = ""
    table_answers: TableAnswerSpec | None = None
    transformers_class: str | None = None
    auto_class: str | None = None
    uses_pooler: bool = False


class TableTask(nn.Module, Generic[ExampleT, Prediction]):
    """A head on a network, a loss and metrics; which network it is makes no difference.

    Args:
        context: the network, and what else a task may need.
        metrics: scores beside those of the task.

    Raises:
        ConfigError: one of the metrics is none.

    Attributes:
        pruned: what the network left of the inputs of examples, by name, when they were last predicted; nothing of one
            that keeps all tokens.
        loss_counts: how many training examples had an answer of a kind, and how many of these a loss: [2] by kind, of
            kinds whose loss may be left out.
    """

    def __init__(self, context: TaskContext, *, metrics: Sequence[Metric] | None = ()) -> None:
        super().__init__()
        self.encoder, self.metrics = context.encoder, tuple(metrics or ())
        if wrong := [type(metric).__name__ for metric in self.metrics if not isinstance(metric, Metric)]:
            raise ConfigError(
                f"{wrong[0]} is not a Metric", where="task.metrics", remedy="See docs/how-to/add_your_own_network.md"
            )
        self.train_poolers(self.spec.uses_pooler)
        self._predictions: list[list[Prediction]] = []
        self._prunings: list[list[Pruning]] = []
        self.pruned: dict[str, Pruning] = {}
        self.loss_counts: dict[str, torch.Tensor] = {}

    spec: ClassVar[TaskSpec]
    """Its declaration."""
    right_name: ClassVar[str] = "right"
    """What people read above `is_correct`."""

    @abstractmethod
    def output_loss(self, output: EncoderOutput, head: Any, encoder: TableEncoder) -> torch.Tensor:  # noqa: ANN401
        """Compute the loss of an encoder's output, a scalar, with the head of the task or a similar one.

        Average with `average_terms`, so that the loss of an optimizer step does not depend on its micro-batches.
        """

    @abstractmethod
    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[Prediction]:
        """Return one prediction per example, from what the network makes of the batch that it was given."""

    def validation_predictions(self, output: EncoderOutput, batch: TableBatch) -> list[Prediction]:
        """Predict as `predictions`, of a validation during training, where a task may take a quicker way."""
        return self.predictions(output, batch)

    @abstractmethod
    def score(self, predictions: Sequence[Prediction], examples: Mapping[str, ExampleT]) -> dict[str, float]:
        """Return metrics of a split: fractions by name; every example with an answer counts, predicted or not."""

    def all_scores(self, predictions: Sequence[Prediction], examples: Mapping[str, ExampleT]) -> dict[str, float]:
        """Return metrics of a split: those of the task, and those that its configuration adds.

        Raises:
            ConfigError: an added one has the name of one of the task.
        """
        scores = self.score(predictions, examples)
        for metric in self.metrics:
            if metric.spec.name in scores:
                problem = f"{type(self).__name__} already has a score named {metric.spec.name}"
                raise ConfigError(problem, where="task.metrics", remedy="Rename its MetricSpec")
            value = metric.compute(self.answers(predictions, examples), examples)
            scores[metric.spec.name] = Score(value, len(examples))
        return scores

    def fit_threshold(self, predictions: Sequence[Prediction], examples: Mapping[str, ExampleT]) -> None:
        """Fit what decides between an answer and none to the predictions of the dev split; nothing by default."""

    @abstractmethod
    def answers(self, predictions: Sequence[Prediction], examples: Mapping[str, ExampleT]) -> dict[str, str]:
        """Return the answer text of each prediction, by example."""

    @abstractmethod
    def is_correct(self, prediction: Prediction, example: ExampleT) -> bool:
        """Tell whether a prediction counts as correct, for tables that people read."""

    def train_poolers(self, needed: bool) -> None:
        """Learn the poolers, or not: processes wait for the gradient of every trained weight."""
        for encoder in self.encoder.encoders.values():
            encoder.pooler.requires_grad_(needed)

    def add_heads(self, build: Callable[[TableEncoder], nn.Module]) -> None:
        """Make the head, and one of the same kind for an encoder inside the network that learns the task itself."""
        self.head, self.early_head = build(self.encoder), None
        learner = self.encoder.auxiliary_encoder
        if learner is not None:
            self.early_head = build(learner)
            self.encoder.share_token_scorer(self.early_head)

    def loss(self, batch: TableBatch) -> torch.Tensor:
        """Return the mean loss of a batch, a scalar; with that of an earlier stage where one learns the task itself."""
        return self.loss_of(self.encoder(batch))

    def loss_of(self, output: EncoderOutput) -> torch.Tensor:
        """Return the mean loss of what the network makes of a batch, as `loss`."""
        loss = self.output_loss(output, self.head, self.encoder)
        learner = self.encoder.auxiliary_encoder
        if learner is None or output.early is None:
            return loss
        return loss + self.output_loss(output.early, self.early_head, learner)

    def count_terms(self, batch: TableBatch) -> dict[str, Tensor | int]:
        """Count by name the terms that the loss of a batch averages over: examples, and others that a task adds."""
        return {"examples": len(batch.input_ids)}

    def average_terms(self, total: Tensor, batch: TableBatch, name: str = "examples") -> Tensor:
        """Average loss terms over the whole optimizer step.

        Args:
            total: sum of the terms of this batch, a scalar.
            batch: a micro-batch with `step_counts`, or a batch that is a step by itself.
            name: of the terms in `count_terms`.
        """
        if batch.is_filler:
            return total * 0
        counts = batch.step_counts or self.count_terms(batch)
        return total / (counts[name] if batch.step_counts else torch.as_tensor(counts[name]).clamp(min=1))

    def count_losses(self, losses: torch.Tensor, kinds: Mapping[str, torch.Tensor]) -> None:
        """Count the losses [B] of examples by the kind of their answer, each kind being a mask [B]."""
        for kind, mask in kinds.items():
            counts = torch.stack([mask.sum(), (mask & (losses > 0)).sum()])
            self.loss_counts[kind] = counts + self.loss_counts[kind].to(counts.device)

    def predict(self, batch: TableBatch) -> list[Prediction]:
        """Return one prediction per example of a batch."""
        return self.predictions(self.encoder(batch), batch)

    def auto_scores(self, output: EncoderOutput, length: int) -> dict[str, torch.Tensor]:
        """Return the scores of the head as the models of transformers return them, those of tokens [B, length]."""
        raise NotImplementedError(f"{type(self).__name__} has no transformers class")

    @property
    def auto_config(self) -> dict[str, Any]:
        """Options that the pipelines of transformers read from a configuration."""
        return {}

    @property
    def table_limits(self) -> tuple[int | None, int | None]:
        """Body rows and columns that it tells apart; None for as many as there are."""
        return None, None

    def details(self, prediction: Prediction) -> dict[str, Any]:
        """Return what a file of predictions says of one besides its answer.

        Cells as [row, column, probability], and more.
        """
        selection = self.selection(prediction)
        if selection is None:
            return {}
        cells = with_probabilities(selection.cells, selection.probabilities)
        return {"cells": cells, "aggregation": selection.aggregation, "confidence": selection.confidence}

    def selection(self, prediction: Prediction) -> Selection | None:
        """Return what a prediction points at; None where that is no cell of the question's table, nor a class."""
        return None

    def baselines(self, examples: Mapping[str, ExampleT], training: Training[ExampleT]) -> dict[str, float]:
        """Score what needs no network, as `<baseline>/<metric>`; `training` reads examples to learn from."""
        return {}

    def training_examples(self, examples: Sequence[ExampleT]) -> list[ExampleT]:
        """Return the examples to learn from; those without a usable label are left out."""
        return [example for example in examples if example.answer and example.answer.coordinates]

    def skip_reason(self, example: ExampleT) -> str:
        """Return what is not known of an example, so that it teaches nothing; empty where it teaches something."""
        return missing_answer(example)

    def evaluation_examples(self, examples: Sequence[ExampleT]) -> list[ExampleT]:
        """Return the examples to predict and score."""
        return list(examples)

    def keep_predictions(self, batch: TableBatch, *, validating: bool = False) -> None:
        """Predict a batch and keep the predictions until they are collected; with `validating` as training does."""
        output: EncoderOutput = self.encoder(batch)
        predict = self.validation_predictions if validating else self.predictions
        self._predictions.append(predict(output, batch))
        self._prunings.append(prunings(batch, output, of_answers=self.spec.label in OF_ANSWERS))

    def collect_predictions(self) -> list[Prediction]:
        """Return the predictions kept since the last call, by all processes; `pruned` is then of their examples too."""
        predictions, self._predictions = self._predictions, []
        left, self._prunings = self._prunings, []
        self.pruned |= {pruning.example_id: pruning for pruning in gather_predictions(left)}
        return gather_predictions(predictions)

    def find_prunings(self, predictions: Sequence[Prediction]) -> dict[str, Pruning]:
        """Return what was left of the inputs of examples that have predictions, by name."""
        names = [prediction.example_id for prediction in predictions]
        return {name: self.pruned[name] for name in names if name in self.pruned}


def missing_answer(example: TableExample) -> str:
    """Say why nothing can be learnt from the answer of an example, as its dataset says; empty where something can."""
    if example.answer is None or example.outcome == NOT_GIVEN:
        return NO_ANSWER
    return (example.answer.source or NO_ANSWER) if example.outcome.startswith(UNUSABLE) else ""


def with_probabilities(cells: Coordinates, probabilities: Sequence[float]) -> list[list[float]]:
    """Return cells as [row, column, probability]."""
    return [[*cell, share] for cell, share in zip(cells, probabilities, strict=True)]


def prunings(batch: TableBatch, output: EncoderOutput, *, of_answers: bool) -> list[Pruning]:
    """Return what is left of each example, and of its answer where labels mark it.

    An empty list where every token is kept.
    """
    left = output.batch
    if left.places is None:
        return []
    tokens = (left.attention_mask == 1).sum(1).tolist()
    answer_kept: list[bool | None] = [None] * len(tokens)
    margins: list[float | None] = [None] * len(tokens)
    if of_answers and batch.label_ids is not None and left.label_ids is not None:
        known, survive = ((labels > 0).any(1).tolist() for labels in (batch.label_ids, left.label_ids))
        answer_kept = [some if there else None for there, some in zip(known, survive, strict=True)]
        if output.scores is not None:
            differences = _margins(output.scores, batch.label_ids > 0, left)
            margins = [value if math.isfinite(value) else None for value in differences.tolist()]
    columns = zip(batch.example_ids, tokens, answer_kept, margins, strict=True)
    return [Pruning(*values) for values in columns]


def _margins(scores: torch.Tensor, in_answer: torch.Tensor, left: TableBatch) -> torch.Tensor:
    """Return the mean score of the answer's tokens less that of the table's that are left [B].

    NaN where there are none.
    """
    assert left.places is not None
    in_table = (left.column_ids > 0) & (left.attention_mask == 1)
    return _mean(scores, in_answer) - _mean(gather_tokens(scores, left.places), in_table)


def _mean(scores: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Return the mean over the chosen tokens of each example, [B, T] to [B]; NaN where none is."""
    return scores.float().masked_fill(~chosen, 0.0).sum(1) / chosen.sum(1)


def gather_predictions(batches: list[list[Prediction]]) -> list[Prediction]:
    """Return the predictions of all processes, in the order in which one process would make them; all must call this.

    Each was given every n-th batch, and some of the last were given twice; each gets all predictions.
    """
    in_turn = chain.from_iterable(zip_longest(*_gather(batches), fillvalue=[]))
    predictions: dict[str, Prediction] = {}
    for prediction in chain.from_iterable(in_turn):
        predictions.setdefault(prediction.example_id, prediction)
    return list(predictions.values())


def add_up(counts: Mapping[str, Tensor]) -> dict[str, list[int]]:
    """Sum counts [N] by name over all ranks; all must call this, with the same names."""
    if not counts:
        return {}
    total = torch.stack([count.cpu() for count in counts.values()])
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(total)
    return dict(zip(counts, total.tolist(), strict=True))


def _gather(share: Share) -> list[Share]:
    if not (dist.is_available() and dist.is_initialized()):
        return [share]
    shares = [share for _ in range(dist.get_world_size())]
    dist.all_gather_object(shares, share)
    return shares
