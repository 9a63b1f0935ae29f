"""What all tasks share: the optimizer, the loss of a step, and metrics at the end of a validation."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pytorch_lightning as pl
import torch

from mate_cli.errors import ConfigError, RunError
from mate_cli.lit_modules.processes import Named, gathered
from mate_cli.lit_modules.pruning import prunings
from mate_cli.metrics.parts import IN_PASSAGE, IN_TABLE
from mate_cli.metrics.pruning import Pruning, pruning_scores
from mate_cli.models.base.encoder_output import EncoderOutput
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.tables.example import Coordinates, Example
from mate_cli.tokenization.layout import TableBatch
from mate_cli.tokenization.serializers.serializer import OF_ANSWERS, Label

NO_ANSWER = "no answer"

ExampleT = TypeVar("ExampleT", bound=Example)
Prediction = TypeVar("Prediction", bound=Named)
Training = Callable[[], Sequence[ExampleT]]
"""Reads the examples that may be learnt from."""
COUNTS = "attention"
"""Of a checkpoint: what the backends have counted."""


class OptimizerRecipe(Protocol):
    """Builds an optimizer for a module."""

    def build(self, module: torch.nn.Module, *, fused: bool = True) -> torch.optim.Optimizer:
        """Return the optimizer; one that is not `fused` leaves the scaling of gradients to others."""


class ScheduleRecipe(Protocol):
    """Builds a learning-rate schedule for an optimizer."""

    def build(self, optimizer: torch.optim.Optimizer, total_steps: int) -> torch.optim.lr_scheduler.LRScheduler:
        """Return the schedule."""


@dataclass(frozen=True)
class Optimization:
    """How the weights of a run are moved, in `total_steps` optimizer steps."""

    optimizer: OptimizerRecipe
    schedule: ScheduleRecipe
    total_steps: int


@dataclass(frozen=True)
class Selection:
    """What a prediction points at, for people to see.

    Args:
        cells: (row, column) of the selected body cells, both from 0.
        aggregation: what is done with them, one of `AGGREGATIONS`.
        confidence: in the answer as a whole, from 0 to 1.
    """

    cells: Coordinates
    probabilities: tuple[float, ...]
    confidence: float
    aggregation: str = "none"


@dataclass(frozen=True)
class AboutTables:
    """How a task answers about any table.

    Args:
        question: an example of what can be asked of it.
        verdict: the answer is a verdict on the table, and not of its cells.
    """

    question: str = "which region sold most?"
    verdict: bool = False


class TableTask(pl.LightningModule, Generic[ExampleT, Prediction]):
    """A head on a network, a loss and metrics; which network it is makes no difference.

    Attributes:
        pruned: what the network left of the inputs of examples, by name, when they were last predicted; nothing of one
            that keeps all tokens.
    """

    def __init__(self, encoder: TableEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.train_poolers(self.pools)
        self._optimization: Optimization | None = None
        self._development: Mapping[str, ExampleT] = {}
        self._losses: list[torch.Tensor] = []
        self._predictions: list[list[Prediction]] = []
        self._prunings: list[list[Pruning]] = []
        self.pruned: dict[str, Pruning] = {}

    takes: ClassVar[tuple[str, ...]] = ()
    """What its constructor is given by name beside the network and its own options: `serializer`, which encodes its
    examples, or `cache`, a folder for what is worked out of them."""

    label: ClassVar[Label | None] = None
    """What an encoding must mark for it (`Serializer.marks`); None where it learns from no mark."""

    about_tables: ClassVar[AboutTables | None] = None
    """How it answers about any table; None where its predictions say nothing that people could look up in one."""

    transformers_class: ClassVar[str | None] = None
    """The class of transformers that does the same with a TAPAS."""

    auto_class: ClassVar[str | None] = None
    """What transformers calls such a task, as in `AutoModelForMaskedLM`; None where it has no name for it."""

    pools: ClassVar[bool] = False
    """Whether the loss sees `EncoderOutput.pooled`; if not, the pooler stays as it is."""

    monitor: str
    """The validation metric that chooses the best weights; its `MetricSpec` says whether more or less is better."""

    @abstractmethod
    def output_loss(self, output: EncoderOutput, head: Any, encoder: TableEncoder) -> torch.Tensor:  # noqa: ANN401
        """The mean loss, a scalar, of what an encoder makes of a batch, by the head of the task or one like it."""

    @abstractmethod
    def predictions(self, output: EncoderOutput, given: TableBatch) -> list[Prediction]:
        """One prediction per example, from what the network makes of the batch that it was given."""

    @abstractmethod
    def score(self, predictions: Sequence[Prediction], examples: Mapping[str, ExampleT]) -> dict[str, float]:
        """Metrics of a split: fractions by name; every example with an answer counts, predicted or not."""

    @abstractmethod
    def answers(self, predictions: Sequence[Prediction], examples: Mapping[str, ExampleT]) -> dict[str, str]:
        """The answer text of each prediction, by example."""

    @abstractmethod
    def right(self, prediction: Prediction, example: ExampleT) -> bool:
        """Whether a prediction counts as correct, for tables that people read."""

    def train_poolers(self, needed: bool) -> None:
        """Learn the poolers, or not: processes wait for the gradient of every trained weight."""
        for encoder in self.encoder.encoders.values():
            encoder.pooler.requires_grad_(needed)

    def add_heads(self, build: Callable[[TableEncoder], torch.nn.Module]) -> None:
        """Make the head, and one of the same kind for an encoder inside the network that learns the task itself."""
        self.head, self.early_head = build(self.encoder), None
        learner = self.encoder.early_learner
        if learner is not None:
            self.early_head = build(learner)
            self.encoder.lend_scores(self.early_head)

    def loss(self, batch: TableBatch) -> torch.Tensor:
        """The mean loss of a batch, a scalar; with that of an earlier stage where one learns the task itself."""
        return self.loss_of(self.encoder(batch))

    def loss_of(self, output: EncoderOutput) -> torch.Tensor:
        """The mean loss of what the network makes of a batch, as `loss`."""
        loss = self.output_loss(output, self.head, self.encoder)
        learner = self.encoder.early_learner
        if learner is None or output.early is None:
            return loss
        return loss + self.output_loss(output.early, self.early_head, learner)

    def predict(self, batch: TableBatch) -> list[Prediction]:
        """One prediction per example of a batch."""
        return self.predictions(self.encoder(batch), batch)

    def auto_scores(self, output: EncoderOutput, length: int) -> dict[str, torch.Tensor]:
        """The scores of the head as the models of transformers return them, those of tokens [B, length]."""
        raise NotImplementedError(f"{type(self).__name__} has no class of transformers")

    @property
    def auto_config(self) -> dict[str, Any]:
        """What the pipelines of transformers ask a configuration for."""
        return {}

    def joined(self, members: Sequence[Sequence[Prediction]]) -> list[Prediction]:
        """One prediction per example, of those of several networks that were trained alike: the mean of their scores.

        Raises:
            ConfigError: the task has no such mean.
        """
        raise ConfigError(f"{type(self).__name__} cannot join several runs", where="run", remedy="Name one run")

    @property
    def table_limits(self) -> tuple[int | None, int | None]:
        """Body rows and columns that it tells apart; None for as many as there are."""
        return None, None

    def details(self, prediction: Prediction) -> dict[str, Any]:
        """What a file of predictions says of one besides its answer: cells as [row, column, probability], and more."""
        selection = self.selection(prediction)
        if selection is None:
            return {}
        cells = with_probabilities(selection.cells, selection.probabilities)
        return {"cells": cells, "aggregation": selection.aggregation, "confidence": selection.confidence}

    def selection(self, prediction: Prediction) -> Selection | None:
        """What a prediction points at; None where that is no cell of the question's table, nor a class."""
        return None

    def baselines(self, examples: Mapping[str, ExampleT], training: Training[ExampleT]) -> dict[str, float]:
        """Metrics of what needs no network, as `<baseline>/<metric>`; `training` reads examples to learn from."""
        return {}

    def training_examples(self, examples: Sequence[ExampleT]) -> list[ExampleT]:
        """The examples to learn from; those without a usable label are left out."""
        return [example for example in examples if example.answer and example.answer.coordinates]

    def lack(self, example: ExampleT) -> str:
        """What is not known of an example, so that it teaches nothing; empty where it teaches something."""
        return lack_of_answer(example)

    def evaluation_examples(self, examples: Sequence[ExampleT]) -> list[ExampleT]:
        """The examples to predict and score."""
        return list(examples)

    def fit_with(self, optimization: Optimization, development: Mapping[str, ExampleT]) -> None:
        """Say how the weights are moved, and which examples validations score, by name; comes before any training."""
        self._optimization, self._development = optimization, development

    def configure_optimizers(self) -> Any:  # noqa: ANN401 - Lightning's own union of types
        """Build the optimizer and the schedule of this run."""
        if self._optimization is None:
            raise RuntimeError("nothing says how to train: call `fit_with` first")
        # Under 16-mixed Lightning unscales the gradients before they are clipped, which a fused optimizer prevents.
        optimizer = self._optimization.optimizer.build(self, fused=self.trainer.precision != "16-mixed")
        schedule = self._optimization.schedule.build(optimizer, self._optimization.total_steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the norm of the whole gradient; Lightning itself refuses to for a fused optimizer under bf16-mixed."""
        if gradient_clip_val:
            torch.nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Refuse a step whose losses are no numbers; asked once a step, as a GPU is waited for.

        Raises:
            RunError: the loss of one of its micro-batches is not a number.
        """
        losses, self._losses = torch.stack(self._losses), []
        if not bool(losses.isfinite().all()):
            wrong = losses[~losses.isfinite()][0].item()
            raise RunError(
                f"the loss is {wrong} at step {self.global_step}",
                remedy="Lower optimizer.lr, raise scheduler.warmup, or set hardware.precision=32-true",
            )

    def training_step(self, batch: TableBatch, batch_index: int) -> torch.Tensor:
        """The loss of one micro-batch."""
        loss = self.loss(batch)
        self._losses.append(loss.detach())
        return loss

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep what the backends have counted."""
        checkpoint[COUNTS] = [backend.counts() for backend in self.encoder.backends]

    def on_load_checkpoint(self, checkpoint: Mapping[str, Any]) -> None:
        """Let the backends count on."""
        for backend, counts in zip(self.encoder.backends, checkpoint[COUNTS], strict=True):
            backend.count_on(counts)

    def validation_step(self, batch: TableBatch, batch_index: int) -> None:
        """Keep the predictions of one batch."""
        self._keep(batch)

    def on_validation_epoch_end(self) -> None:
        """Log the metrics of the whole split under `dev/`."""
        predictions = self.collected()
        metrics = self.score(predictions, self._development) | pruning_scores(self.pruned_of(predictions).values())
        self.log_dict({f"dev/{name}": value for name, value in metrics.items()})

    def predict_step(self, batch: TableBatch, batch_index: int) -> None:
        """Keep the predictions of one batch."""
        self._keep(batch)

    def _keep(self, batch: TableBatch) -> None:
        output: EncoderOutput = self.encoder(batch)
        self._predictions.append(self.predictions(output, batch))
        self._prunings.append(prunings(batch, output, of_answers=self.label in OF_ANSWERS))

    def collected(self) -> list[Prediction]:
        """The predictions kept since the last call, by all processes; `pruned` is then of their examples too."""
        kept, self._predictions = self._predictions, []
        left, self._prunings = self._prunings, []
        self.pruned |= {one.example_id: one for one in gathered(left)}
        return gathered(kept)

    def pruned_of(self, predictions: Sequence[Prediction]) -> dict[str, Pruning]:
        """What was left of the inputs of examples that have predictions, by name."""
        names = [prediction.example_id for prediction in predictions]
        return {name: self.pruned[name] for name in names if name in self.pruned}


def lack_of_answer(example: Example) -> str:
    """Why an example has neither answer cells nor a number nor a label, as its dataset says; empty where it has one."""
    answer = example.answer
    if answer is None:
        return NO_ANSWER
    known = answer.coordinates or answer.number is not None or answer.label is not None
    return "" if known else answer.source or NO_ANSWER


def with_probabilities(cells: Coordinates, probabilities: Sequence[float]) -> list[list[float]]:
    """Cells as [row, column, probability]."""
    return [[*cell, share] for cell, share in zip(cells, probabilities, strict=True)]


def by_source(examples: Mapping[str, Example]) -> dict[str, list[str]]:
    """Names of the examples whose answer is in the table, and of those whose answer is in a passage."""
    known = {name: example.answer for name, example in examples.items() if example.answer}
    return {kind: [name for name, a in known.items() if a.source == kind] for kind in (IN_TABLE.name, IN_PASSAGE.name)}
