"""The LightningModule of any task, and the LightningDataModule of any data.

Tasks and data depend on torch only, so Lightning is imported only for training. Optimizers and schedules are recipes
until the weights exist: classes of mate with a method `build`, or partial functions of torch classes from a
configuration (`_target_: torch.optim.X`, `_partial_: true`).
"""

import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from torch import nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.utils.data import DataLoader

from mate_cli.data.loading.batching import Schedule
from mate_cli.data.loading.table_data_module import TableDataModule
from mate_cli.errors import ConfigError, RunError
from mate_cli.lit_modules.base import TableTask, all_reduce_counts
from mate_cli.metrics.pruning import pruning_scores
from mate_cli.models.base.task_model import TaskModel
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableBatch

COUNTS, LOSSES = "attention", "losses"
"""Keys of a checkpoint: usage counts of attention backends, and counts of examples with a loss."""
STEPS = ("T_max", "total_iters", "total_steps")
"""Parameters of torch schedules for the total number of steps."""
Made = TypeVar("Made")


class LitTask(TaskModel, pl.LightningModule):
    """The LightningModule that trains a task: optimizer steps, validation and checkpoints.

    Args:
        task: network with its head.
        optimizer: recipe of the optimizer, see `read_recipe`.
        scheduler: recipe of the learning rate schedule.
        total_steps: number of optimizer steps of the run.
        development: examples of the dev split, by id.
        pretrained: names of the weights that were loaded from a checkpoint, which may have another learning rate.
    """

    def __init__(
        self,
        task: TableTask[Any, Any],
        optimizer: Any,  # noqa: ANN401 - a recipe
        scheduler: Any,  # noqa: ANN401 - a recipe
        total_steps: int,
        development: Mapping[str, TableExample],
        pretrained: Collection[str] = (),
    ) -> None:
        super().__init__()
        self.share_modules(task)
        self.optimizer, self.scheduler, self.total_steps = optimizer, scheduler, total_steps
        self.development, self.pretrained = development, pretrained
        self._losses: list[torch.Tensor] = []

    def configure_optimizers(self) -> Any:  # noqa: ANN401 - Lightning's own union of types
        """Build the optimizer and the learning rate schedule of the run."""
        # Under 16-mixed Lightning unscales the gradients before they are clipped, which a fused optimizer prevents.
        is_fused = self.trainer.precision != "16-mixed"
        optimizer = build_optimizer(self.optimizer, self.task, self.pretrained, fused=is_fused)
        schedule = build_schedule(self.scheduler, optimizer, self.total_steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the norm of the gradient of all parameters.

        Lightning's implementation raises an error for a fused optimizer under bf16-mixed.

        Args:
            optimizer: optimizer of the step.
            gradient_clip_val: maximum norm. None or 0: no clipping.
            gradient_clip_algorithm: ignored, always the norm.
        """
        if gradient_clip_val:
            torch.nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Check that the losses of all micro-batches of the step are finite.

        The check runs once per step, because it synchronizes with the GPU.

        Raises:
            RunError: the loss of a micro-batch is NaN or infinite.
        """
        losses, self._losses = torch.stack(self._losses), []
        if not bool(losses.isfinite().all()):
            problem = f"the loss is {losses[~losses.isfinite()][0].item()} at step {self.global_step}"
            hint = "Lower optimizer.lr, raise scheduler.warmup, or set hardware.precision=32-true"
            raise RunError(problem, remedy=hint)

    def training_step(self, batch: TableBatch, batch_index: int) -> torch.Tensor:
        """Compute the loss of one micro-batch."""
        loss = self.task.loss(batch)
        self._losses.append(loss.detach())
        return loss

    def validation_step(self, batch: TableBatch, batch_index: int) -> None:
        """Predict one batch of the dev split and store the predictions until the end of the validation."""
        self.task.keep_predictions(batch, validating=True)

    def on_validation_epoch_end(self) -> None:
        """Compute the metrics of the dev split, and log them under names such as `dev/accuracy`."""
        predictions = self.task.collect_predictions()
        self.task.fit_threshold(predictions, self.development)
        metrics = self.task.all_scores(predictions, self.development)
        metrics |= pruning_scores(self.task.find_prunings(predictions).values())
        dev_metrics = {f"dev/{name}": value for name, value in metrics.items()}
        # A callback logs them with the epoch of the data, which Lightning does not know.
        self.log_dict(dev_metrics, logger=False)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the usage counts of the attention backends, and the counts of examples with a loss."""
        checkpoint[COUNTS] = [backend.counts() for backend in self.task.encoder.backends]
        checkpoint[LOSSES] = all_reduce_counts(self.task.loss_counts)

    def on_load_checkpoint(self, checkpoint: Mapping[str, Any]) -> None:
        """Restore the counts that `on_save_checkpoint` saved."""
        for backend, counts in zip(self.task.encoder.backends, checkpoint[COUNTS], strict=True):
            backend.load_counts(counts)
        self.task.loss_counts = {kind: torch.tensor(counts) for kind, counts in checkpoint[LOSSES].items()}


class CountedSteps:
    """An iterable over the micro-batches of a loader, each with the counts of loss terms of its optimizer step.

    Lightning averages the losses of all micro-batches of an optimizer step and of all ranks. For a mean over the terms
    of the whole step, each loss must therefore be divided by the mean count per micro-batch, `TableBatch.step_counts`.

    Args:
        loader: loader of the micro-batches of this rank.
        task: task that counts the terms of its loss.
        accumulate: number of micro-batches of an optimizer step.
    """

    def __init__(self, loader: DataLoader[TableBatch], task: TableTask[Any, Any], accumulate: int) -> None:
        self.loader, self.task, self.accumulate = loader, task, accumulate

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[TableBatch]:
        """Yield the micro-batches of a step after all micro-batches of the step are loaded."""
        batches = iter(self.loader)
        while step := list(islice(batches, self.accumulate)):
            term_counts = [self.task.count_terms(batch) for batch in step if not batch.is_filler]
            names = self.task.count_terms(step[0])
            sums = {name: torch.tensor([sum(int(counts[name]) for counts in term_counts), len(step)]) for name in names}
            means = {name: (total or 1) / parts for name, (total, parts) in all_reduce_counts(sums).items()}
            yield from (replace(batch, step_counts=means) for batch in step)


class LitData(pl.LightningDataModule):
    """The LightningDataModule of a run, which wraps a `TableDataModule`.

    Args:
        data: data module of the run.
        task: task that counts the terms of its loss in each batch.
    """

    def __init__(self, data: TableDataModule, task: TableTask[Any, Any]) -> None:
        super().__init__()
        self.data, self.task = data, task

    @property
    def schedule(self) -> Schedule:
        """The batch sizes and the number of steps of the run."""
        return self.data.schedule

    def epoch(self, step: int) -> float:
        """Return the fractional epoch after `step` optimizer steps."""
        return self.data.epoch(step)

    def train_dataloader(self) -> CountedSteps:
        """Return the loader of all remaining micro-batches of the run, a single epoch for Lightning."""
        return CountedSteps(self.data.train_dataloader(), self.task, self.schedule.accumulate)

    def val_dataloader(self) -> DataLoader[TableBatch]:
        """Return the loader of the dev split."""
        return self.data.loader("dev")


def read_recipe(node: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a recipe of mate, or a partial of torch
    """Instantiate the configuration of an optimizer or a schedule, without weights to optimize.

    The result is an object of mate with a method `build`, or a partial of a torch class that lacks its first argument.
    """
    factory = instantiate(node, _partial_=True)
    return factory() if hasattr(factory.func, "build") else factory


def build_optimizer(
    recipe: Any,  # noqa: ANN401 - see `read_recipe`
    module: nn.Module,
    pretrained: Collection[str] = (),
    *,
    fused: bool = True,
) -> torch.optim.Optimizer:
    """Build the optimizer of the trainable parameters of a module.

    If `factors` of the recipe are not 1, each parameter group is split into new and loaded weights, in this order, with
    separate learning rates. A schedule multiplies both rates by the same factor.

    Args:
        recipe: recipe from `read_recipe`. The options of a torch class apply to all parameters.
        module: module to train.
        pretrained: names of the weights that were loaded from a checkpoint.
        fused: whether the optimizer may be fused. False is required if the caller unscales gradients.

    Raises:
        ConfigError: torch rejects an option.
    """
    if hasattr(recipe, "build"):
        optimizer: torch.optim.Optimizer = recipe.build(module, fused=fused)
    else:
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        fused_option = {"fused": False} if not fused and "fused" in recipe.keywords else {}
        optimizer = _build(recipe, parameters, fused_option, "optimizer")
    factors = getattr(recipe, "factors", None) or {}
    if any(factor != 1 for factor in factors.values()):
        loaded_parameters = {parameter for name, parameter in module.named_parameters() if name in pretrained}
        parts = ((False, factors.get("new", 1.0)), (True, factors.get("pretrained", 1.0)))
        groups = [
            _part(group, loaded_parameters, is_loaded, factor)
            for is_loaded, factor in parts
            for group in optimizer.param_groups
        ]
        optimizer.param_groups[:] = [group for group in groups if group["params"]]
    return optimizer


def _part(
    group: Mapping[str, Any], loaded_parameters: Collection[nn.Parameter], is_loaded: bool, factor: float
) -> dict[str, Any]:
    """Return a copy of a parameter group with only its loaded, or only its new, parameters.

    The learning rate is multiplied by `factor`.
    """
    params = [parameter for parameter in group["params"] if (parameter in loaded_parameters) == is_loaded]
    return {**group, "params": params, "lr": group["lr"] * factor}


def build_schedule(
    recipe: Any,  # noqa: ANN401 - see `read_recipe`
    optimizer: torch.optim.Optimizer,
    total_steps: int,
) -> LRScheduler:
    """Build a learning rate schedule that is advanced once per optimizer step.

    Args:
        recipe: recipe from `read_recipe`.
        optimizer: optimizer of the run.
        total_steps: number of optimizer steps of the run, also passed to torch schedules that need a number of steps.

    Raises:
        ConfigError: torch rejects an option, or the schedule needs a metric.
    """
    if hasattr(recipe, "build"):
        schedule: LRScheduler = recipe.build(optimizer, total_steps)
        return schedule
    open_steps = set(STEPS) & inspect.signature(recipe.func).parameters.keys() - recipe.keywords.keys()
    schedule = _build(recipe, optimizer, dict.fromkeys(open_steps, total_steps), "scheduler")
    if isinstance(schedule, ReduceLROnPlateau):
        problem = "ReduceLROnPlateau needs a metric, but schedules advance at every step"
        hint = "Use a schedule that depends only on the step, such as torch.optim.lr_scheduler.StepLR"
        raise ConfigError(problem, where="scheduler", remedy=hint)
    return schedule


def _build(factory: partial[Made], subject: object, options: Mapping[str, Any], section: str) -> Made:
    try:
        return factory(subject, **options)
    except (TypeError, ValueError) as error:
        problem = f"{getattr(factory.func, '__name__', 'torch')} rejects its settings: {error}"
        raise ConfigError(problem, where=section, remedy=f"Change {section}.*") from error
