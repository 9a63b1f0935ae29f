"""Base class of all tasks: a head on a network, its loss, predictions and metrics.

The module does not depend on Lightning.
"""

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
from mate_cli.metrics.specs import USER_METRICS, Metric, MetricSpec, Score
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, TaskContext
from mate_cli.tables.example import NOT_GIVEN, UNUSABLE, Coordinates, TableExample
from mate_cli.tokenization.layout import TableBatch, gather_tokens
from mate_cli.tokenization.serializers.serializer import OF_ANSWERS, Label

NO_ANSWER = "no answer"
COMPUTED = "computed numbers"
"""Key in `TableTask.loss_counts` of answers that no cell contains."""


class HasExampleId(Protocol):
    """Protocol of an object that belongs to one example, such as a prediction."""

    @property
    def example_id(self) -> str:
        """The id of the example."""


ExampleT = TypeVar("ExampleT", bound=TableExample)
Prediction = TypeVar("Prediction", bound=HasExampleId)
Share = TypeVar("Share")
Training = Callable[[], Sequence[ExampleT]]
"""Function that reads the examples of the training split."""


@dataclass(frozen=True)
class Selection:
    """The table cells or graph nodes that a prediction selects, with probabilities, for display.

    Args:
        cells: (row, column) of the selected body cells, both from 0.
        probabilities: probability of each selected cell.
        confidence: confidence in the whole answer, from 0 to 1. It needs calibration, because components without a
            training signal, such as the column of a computed number, lower it.
        aggregation: aggregation of the cells, one of `AGGREGATIONS`.
        is_null: whether the prediction is that the table does not contain the answer.
    """

    cells: Coordinates
    probabilities: tuple[float, ...]
    confidence: float
    aggregation: str = "none"
    is_null: bool = False

    def share_right(self, calibration: Callable[[float], float] | None) -> float:
        """Return the estimated probability that the answer is correct.

        Args:
            calibration: function from `confidence` to this probability. None: the mean probability of the cells, or
                `confidence` if no cell is selected.
        """
        if calibration is not None:
            return calibration(self.confidence)
        return fmean(self.probabilities) if self.probabilities else self.confidence


@dataclass(frozen=True)
class TableAnswerSpec:
    """The type of answers that a task predicts for questions about a user's table.

    Args:
        question: an example of a question or statement.
        verdict: whether the answer is a verdict on a statement instead of cells.
    """

    question: str = "which region sold most?"
    verdict: bool = False


@dataclass(frozen=True)
class TaskSpec:
    """The properties of a task class that are known before a network is built.

    Args:
        monitor: validation metric that selects the best checkpoint. Its `MetricSpec` declares the direction.
        label: token labels that the encoding must annotate, such as "cells" or "span" (`Serializer.label_kind`). None:
            no token labels are needed.
        encoding: option of the config group `encoding` that annotates these labels. Other options may do so too.
        table_answers: type of answers for a user's table. None if predictions do not refer to the contents of a table.
        transformers_class: class of transformers for the same task with TAPAS. None if transformers has no such class.
        auto_class: name of the task in the auto classes of transformers, as in `AutoModelForMaskedLM`. None if
            transformers has no such task.
        uses_pooler: whether the loss depends on `EncoderOutput.pooled`. False: the pooler is not trained.
        metrics: declarations of the metrics of a user-defined task that no file of `mate_cli/metrics` declares.
    """

    monitor: str
    label: Label | None = None
    encoding: str = ""
    table_answers: TableAnswerSpec | None = None
    transformers_class: str | None = None
    auto_class: str | None = None
    uses_pooler: bool = False
    metrics: tuple[MetricSpec, ...] = ()

    def __post_init__(self) -> None:
        USER_METRICS.update({spec.name: spec for spec in self.metrics})


class TableTask(nn.Module, Generic[ExampleT, Prediction]):
    """Base class of tasks: a head on any network, a loss, predictions and metrics.

    Args:
        context: network, serializer and cache folder.
        metrics: metrics to compute in addition to the metrics of the task.

    Raises:
        ConfigError: an entry of `metrics` is not a `Metric`.

    Attributes:
        pruned: pruning statistics of the last prediction of each example, by example id. Empty if the network does not
            prune tokens.
        loss_counts: by answer type, a tensor [2] with the number of training examples and the number of examples with a
            loss above 0. Contains only answer types whose loss may be omitted.
    """

    def __init__(self, context: TaskContext, *, metrics: Sequence[Metric] | None = ()) -> None:
        super().__init__()
        self.encoder, self.metrics = context.encoder, tuple(metrics or ())
        if invalid_types := [type(metric).__name__ for metric in self.metrics if not isinstance(metric, Metric)]:
            problem, hint = f"{invalid_types[0]} is not a Metric", "See docs/how-to/add_your_own_network.md"
            raise ConfigError(problem, where="task.metrics", remedy=hint)
        self.train_poolers(self.spec.uses_pooler)
        self._predictions: list[list[Prediction]] = []
        self._prunings: list[list[Pruning]] = []
        self.pruned: dict[str, Pruning] = {}
        self.loss_counts: dict[str, torch.Tensor] = {}

    spec: ClassVar[TaskSpec]
    """The declaration of the task."""
    correct_title: ClassVar[str] = "right"
    """Column title of `is_correct` in tables of predictions."""

    @abstractmethod
    def output_loss(self, output: EncoderOutput, head: Any, encoder: TableEncoder) -> torch.Tensor:  # noqa: ANN401
        """Compute the loss of the task from an encoder's output for a batch, a scalar.

        Average with `average_terms`, so that the loss of an optimizer step does not depend on its micro-batches.

        Args:
            output: output of the encoder.
            head: head of the task, or the second head for the auxiliary encoder of the network.
            encoder: encoder that computed `output`.
        """

    @abstractmethod
    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[Prediction]:
        """Convert the output of the network for a batch to one prediction per example."""

    def validation_predictions(self, output: EncoderOutput, batch: TableBatch) -> list[Prediction]:
        """Convert the output of the network to predictions in a validation during training.

        The default calls `predictions`. A task may override it with a faster method.
        """
        return self.predictions(output, batch)

    @abstractmethod
    def score(self, predictions: Sequence[Prediction], examples: Mapping[str, ExampleT]) -> dict[str, float]:
        """Compute the metrics of a split, as fractions by metric name.

        Every example with an answer is scored, with or without a prediction.

        Args:
            predictions: predictions, at most one per example.
            examples: examples of the split, by id.
        """

    def all_scores(self, predictions: Sequence[Prediction], examples: Mapping[str, ExampleT]) -> dict[str, float]:
        """Compute the metrics of the task and the metrics that its configuration adds.

        Raises:
            ConfigError: an added metric has the name of a metric of the task.
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
        """Fit the threshold above which a question is unanswerable. The default does nothing.

        Args:
            predictions: predictions of the dev split.
            examples: examples of the dev split, by id.
        """

    @abstractmethod
    def answers(self, predictions: Sequence[Prediction], examples: Mapping[str, ExampleT]) -> dict[str, str]:
        """Convert predictions to answer texts, by example id.

        Args:
            predictions: predictions to convert.
            examples: examples of the predictions, by id.
        """

    @abstractmethod
    def is_correct(self, prediction: Prediction, example: ExampleT) -> bool:
        """Return whether the prediction for an example is correct."""

    def train_poolers(self, needed: bool) -> None:
        """Make the poolers of all encoders trainable, or freeze the poolers.

        DDP waits for a gradient of every trainable weight, so an unused pooler must be frozen.

        Args:
            needed: whether the loss depends on the poolers.
        """
        for encoder in self.encoder.encoders.values():
            encoder.pooler.requires_grad_(needed)

    def add_heads(self, build: Callable[[TableEncoder], nn.Module]) -> None:
        """Build the head, and a second head for the auxiliary encoder if the network has one.

        Args:
            build: function that builds the head for an encoder.
        """
        self.head, self.early_head = build(self.encoder), None
        learner = self.encoder.auxiliary_encoder
        if learner is not None:
            self.early_head = build(learner)
            self.encoder.tie_token_scorer(self.early_head)

    def loss(self, batch: TableBatch) -> torch.Tensor:
        """Compute the mean loss of a batch, a scalar, including the loss of the auxiliary encoder."""
        return self.compute_loss(self.encoder(batch))

    def compute_loss(self, output: EncoderOutput) -> torch.Tensor:
        """Compute the mean loss of a batch, a scalar, from the output of the network for this batch."""
        loss = self.output_loss(output, self.head, self.encoder)
        learner = self.encoder.auxiliary_encoder
        if learner is None or output.early is None:
            return loss
        return loss + self.output_loss(output.early, self.early_head, learner)

    def count_terms(self, batch: TableBatch) -> dict[str, Tensor | int]:
        """Count the terms over which the loss of a batch is averaged, by name.

        The default is the number of examples. Tasks may add other terms, such as masked tokens.
        """
        return {"examples": len(batch.input_ids)}

    def average_terms(self, total: Tensor, batch: TableBatch, name: str = "examples") -> Tensor:
        """Divide a sum of loss terms by the number of terms in the whole optimizer step.

        Args:
            total: sum of the terms of this batch, a scalar.
            batch: micro-batch with `step_counts`, or a batch that is a whole optimizer step.
            name: name of the terms in `count_terms`.
        """
        if batch.is_filler:
            return total * 0
        counts = batch.step_counts or self.count_terms(batch)
        return total / (counts[name] if batch.step_counts else torch.as_tensor(counts[name]).clamp(min=1))

    def count_losses(self, losses: torch.Tensor, kinds: Mapping[str, torch.Tensor]) -> None:
        """Count the examples of a batch, and the examples with a loss above 0, in `loss_counts`.

        Args:
            losses: loss of each example, [B].
            kinds: mask of the examples of each answer type, Bool [B], by answer type.
        """
        for kind, mask in kinds.items():
            counts = torch.stack([mask.sum(), (mask & (losses > 0)).sum()])
            self.loss_counts[kind] = counts + self.loss_counts[kind].to(counts.device)

    def predict(self, batch: TableBatch) -> list[Prediction]:
        """Encode a batch and return one prediction per example."""
        return self.predictions(self.encoder(batch), batch)

    def auto_scores(self, output: EncoderOutput, length: int) -> dict[str, torch.Tensor]:
        """Compute the logits of the head under the names of transformers' output classes.

        Args:
            output: output of the network.
            length: number of tokens of the input. Token logits have shape [B, length].
        """
        raise NotImplementedError(f"{type(self).__name__} has no transformers class")

    @property
    def auto_config(self) -> dict[str, Any]:
        """Options of config.json that the pipelines of transformers need for this task."""
        return {}

    @property
    def table_limits(self) -> tuple[int | None, int | None]:
        """Maximum numbers of body rows and of columns that the head can distinguish. None: no limit."""
        return None, None

    def details(self, prediction: Prediction) -> dict[str, Any]:
        """Return the fields of a prediction, other than its text, that prediction files contain.

        The default fields are the cells as [row, column, probability], the aggregation and the confidence.
        """
        selection = self.selection(prediction)
        if selection is None:
            return {}
        cells = with_probabilities(selection.cells, selection.probabilities)
        return {"cells": cells, "aggregation": selection.aggregation, "confidence": selection.confidence}

    def selection(self, prediction: Prediction) -> Selection | None:
        """Return the cells or the class that a prediction selects, or None for other types of predictions."""
        return None

    def baselines(self, examples: Mapping[str, ExampleT], training: Training[ExampleT]) -> dict[str, float]:
        """Compute metrics of simple baselines without a network, by `<baseline>/<metric>`.

        Args:
            examples: examples of the scored split, by id.
            training: function that reads the training split, on which a baseline may be fitted.
        """
        return {}

    def training_examples(self, examples: Sequence[ExampleT]) -> list[ExampleT]:
        """Return the examples with a label on which the task can train, by default known answer cells."""
        return [example for example in examples if example.answer and example.answer.coordinates]

    def skip_reason(self, example: ExampleT) -> str:
        """Return why the task cannot train on an example, or "" if it can."""
        return missing_answer(example)

    def evaluation_examples(self, examples: Sequence[ExampleT]) -> list[ExampleT]:
        """Return the examples to predict and score, by default all examples."""
        return list(examples)

    def keep_predictions(self, batch: TableBatch, *, validating: bool = False) -> None:
        """Predict a batch and store the predictions for `collect_predictions`.

        Args:
            batch: batch to predict.
            validating: whether to use `validation_predictions`, which may be faster than `predictions`.
        """
        output: EncoderOutput = self.encoder(batch)
        predict = self.validation_predictions if validating else self.predictions
        self._predictions.append(predict(output, batch))
        self._prunings.append(prunings(batch, output, of_answers=self.spec.label in OF_ANSWERS))

    def collect_predictions(self) -> list[Prediction]:
        """Return the predictions stored since the last call, gathered from all ranks.

        Also updates `pruned`.
        """
        predictions, self._predictions = self._predictions, []
        local_prunings, self._prunings = self._prunings, []
        self.pruned |= {pruning.example_id: pruning for pruning in gather_predictions(local_prunings)}
        return gather_predictions(predictions)

    def find_prunings(self, predictions: Sequence[Prediction]) -> dict[str, Pruning]:
        """Return statistics of token pruning, such as the number of remaining tokens, by example id.

        Args:
            predictions: predictions that `collect_predictions` returned.
        """
        names = [prediction.example_id for prediction in predictions]
        return {name: self.pruned[name] for name in names if name in self.pruned}


def missing_answer(example: TableExample) -> str:
    """Return why the answer of an example cannot be used for training, or "" if it can."""
    if example.answer is None or example.outcome == NOT_GIVEN:
        return NO_ANSWER
    return (example.answer.source or NO_ANSWER) if example.outcome.startswith(UNUSABLE) else ""


def with_probabilities(cells: Coordinates, probabilities: Sequence[float]) -> list[list[float]]:
    """Append its probability to each selected cell: [row, column, probability]."""
    return [[*cell, share] for cell, share in zip(cells, probabilities, strict=True)]


def prunings(batch: TableBatch, output: EncoderOutput, *, of_answers: bool) -> list[Pruning]:
    """Compute pruning statistics of each example. Empty if the network does not prune tokens.

    Args:
        batch: input of the network.
        output: output of the network, whose batch contains the tokens that are not pruned.
        of_answers: whether the token labels annotate the answer, so that statistics of the answer are computed.
    """
    kept_batch = output.batch
    if kept_batch.places is None:
        return []
    tokens = (kept_batch.attention_mask == 1).sum(1).tolist()
    answer_kept: list[bool | None] = [None] * len(tokens)
    margins: list[float | None] = [None] * len(tokens)
    if of_answers and batch.label_ids is not None and kept_batch.label_ids is not None:
        has_answer, answer_survives = (
            (labels > 0).any(1).tolist() for labels in (batch.label_ids, kept_batch.label_ids)
        )
        answer_kept = [
            is_kept if has_labels else None for has_labels, is_kept in zip(has_answer, answer_survives, strict=True)
        ]
        if output.scores is not None:
            differences = _margins(output.scores, batch.label_ids > 0, kept_batch)
            margins = [value if math.isfinite(value) else None for value in differences.tolist()]
    columns = zip(batch.example_ids, tokens, answer_kept, margins, strict=True)
    return [Pruning(*values) for values in columns]


def _margins(scores: torch.Tensor, in_answer: torch.Tensor, kept_batch: TableBatch) -> torch.Tensor:
    """Compute how much higher the answer tokens score than the unpruned table tokens, [B].

    The result is the difference of the mean scores. The result is NaN for an example without answer tokens or without
    unpruned table tokens.
    """
    assert kept_batch.places is not None
    in_table = (kept_batch.column_ids > 0) & (kept_batch.attention_mask == 1)
    return _mean(scores, in_answer) - _mean(gather_tokens(scores, kept_batch.places), in_table)


def _mean(scores: torch.Tensor, is_selected: torch.Tensor) -> torch.Tensor:
    """Average scores over the selected tokens of each example, [B, T] to [B].

    The mean is NaN if no token is selected.
    """
    return scores.float().masked_fill(~is_selected, 0.0).sum(1) / is_selected.sum(1)


def gather_predictions(batches: list[list[Prediction]]) -> list[Prediction]:
    """Gather the predictions of all ranks, in the order in which a single process would predict.

    All ranks must call this function. Rank r of n has predicted the batches r, r + n, ... Duplicates, which fill up the
    last batches, are removed.

    Args:
        batches: predictions of each batch of this rank.
    """
    in_turn = chain.from_iterable(zip_longest(*_gather(batches), fillvalue=[]))
    predictions: dict[str, Prediction] = {}
    for prediction in chain.from_iterable(in_turn):
        predictions.setdefault(prediction.example_id, prediction)
    return list(predictions.values())


def all_reduce_counts(counts: Mapping[str, Tensor]) -> dict[str, list[int]]:
    """Sum counts over all ranks, by name.

    All ranks must call this function with the same names.

    Args:
        counts: counts of this rank by name, each a tensor [N].
    """
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
