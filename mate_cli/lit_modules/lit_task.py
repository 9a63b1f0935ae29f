"""The Lightning modules: one trains any task, that is a network with its head, and one serves any data.

Tasks and data are torch alone, so that nothing but training imports Lightning. Optimizers and schedules are recipes
before there are any weights: ours, which have a method `build`, or those of torch, which a configuration alone names
(`_target_: torch.optim.X`, `_partial_: true`).
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
from mate_cli.lit_modules.base import TableTask, add_up
from mate_cli.metrics.pruning import pruning_scores
from mate_cli.models.base.task_model import TaskModel
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableBatch

COUNTS, LOSSES = "attention", "losses"
"""Keys of a checkpoint for the counts of attention backends, and of examples with a loss."""
STEPS = ("T_max", "total_iters", "total_steps")
"""Names of the number of steps in torch's schedules."""
Made = TypeVar("Made")


class LitTask(TaskModel, pl.LightningModule):
    """A task as Lightning trains and validates it.

    Args:
        task: a network with its head.
        optimizer: how its weights are moved, see `read_recipe`.
        scheduler: how the learning rate moves.
        total_steps: optimizer steps of the run.
        development: the examples that validations score, by name.
        pretrained: the names of weights that were loaded.
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
        """Build the optimizer and the schedule of this run."""
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
        """Return the loss of one micro-batch."""
        loss = self.task.loss(batch)
        self._losses.append(loss.detach())
        return loss

    def validation_step(self, batch: TableBatch, batch_index: int) -> None:
        """Keep the predictions of one batch."""
        self.task.keep_predictions(batch, validating=True)

    def on_validation_epoch_end(self) -> None:
        """Log the metrics of the whole split under `dev/`."""
        predictions = self.task.collect_predictions()
        self.task.fit_threshold(predictions, self.development)
        metrics = self.task.all_scores(predictions, self.development)
        metrics |= pruning_scores(self.task.find_prunings(predictions).values())
        named = {f"dev/{name}": value for name, value in metrics.items()}
        self.log_dict(named, logger=False)  # a row of them has the epoch of the data, which Lightning cannot know

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the counts of the attention backends, and of examples with a loss."""
        checkpoint[COUNTS] = [backend.counts() for backend in self.task.encoder.backends]
        checkpoint[LOSSES] = add_up(self.task.loss_counts)

    def on_load_checkpoint(self, checkpoint: Mapping[str, Any]) -> None:
        """Count on."""
        for backend, counts in zip(self.task.encoder.backends, checkpoint[COUNTS], strict=True):
            backend.count_on(counts)
        self.task.loss_counts = {kind: torch.tensor(counts) for kind, counts in checkpoint[LOSSES].items()}


class CountedSteps:
    """The micro-batches of a loader, with the counts of loss terms of their optimizer steps over all ranks.

    Lightning averages the losses of the micro-batches of a step and of the ranks. Each is therefore divided by the
    mean count per micro-batch of the step.

    Args:
        loader: yields the micro-batches of this rank.
        task: counts the terms of its loss.
        accumulate: micro-batches of a step.
    """

    def __init__(self, loader: DataLoader[TableBatch], task: TableTask[Any, Any], accumulate: int) -> None:
        self.loader, self.task, self.accumulate = loader, task, accumulate

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[TableBatch]:
        """Yield the micro-batches of a step once all of them are loaded."""
        batches = iter(self.loader)
        while step := list(islice(batches, self.accumulate)):
            counted = [self.task.count_terms(batch) for batch in step if not batch.is_filler]
            names = self.task.count_terms(step[0])
            sums = {name: torch.tensor([sum(int(counts[name]) for counts in counted), len(step)]) for name in names}
            means = {name: (total or 1) / parts for name, (total, parts) in add_up(sums).items()}
            yield from (replace(batch, step_counts=means) for batch in step)


class LitData(pl.LightningDataModule):
    """The splits of a run as Lightning asks for them."""

    def __init__(self, data: TableDataModule, task: TableTask[Any, Any]) -> None:
        super().__init__()
        self.data, self.task = data, task

    @property
    def schedule(self) -> Schedule:
        """Sizes of batches and of the run."""
        return self.data.schedule

    def epoch(self, step: int) -> float:
        """Return passes over the training split after `step` optimizer steps."""
        return self.data.epoch(step)

    def train_dataloader(self) -> CountedSteps:
        """Return the whole run as one pass, or the rest of it."""
        return CountedSteps(self.data.train_dataloader(), self.task, self.schedule.accumulate)

    def val_dataloader(self) -> DataLoader[TableBatch]:
        """Return the development split."""
        return self.data.loader("dev")


def read_recipe(node: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of ours, or a partial of torch's
    """Return what a configuration names: a recipe of ours, or what of torch still lacks parameters or an optimizer."""
    factory = instantiate(node, _partial_=True)
    return factory() if hasattr(factory.func, "build") else factory


def build_optimizer(
    recipe: Any,  # noqa: ANN401 - see `read_recipe`
    module: nn.Module,
    pretrained: Collection[str] = (),
    *,
    fused: bool = True,
) -> torch.optim.Optimizer:
    """Build the optimizer of a module's trainable parameters.

    Where `factors` of the recipe say so, its groups are cut in two, new weights first, with rates of their own; a
    schedule multiplies the rates of both alike.

    Args:
        recipe: what is configured of torch's holds for all parameters alike.
        module: what is trained.
        pretrained: the names of weights that were loaded.
        fused: False leaves the scaling of gradients to others; torch decides, if it may be fused.

    Raises:
        ConfigError: torch refuses an option.
    """
    if hasattr(recipe, "build"):
        optimizer: torch.optim.Optimizer = recipe.build(module, fused=fused)
    else:
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        held = {"fused": False} if not fused and "fused" in recipe.keywords else {}
        optimizer = _build(recipe, trained, held, "optimizer")
    factors = getattr(recipe, "factors", None) or {}
    if any(factor != 1 for factor in factors.values()):
        loaded = {parameter for name, parameter in module.named_parameters() if name in pretrained}
        parts = ((False, factors.get("new", 1.0)), (True, factors.get("pretrained", 1.0)))
        groups = [_part(group, loaded, old, factor) for old, factor in parts for group in optimizer.param_groups]
        optimizer.param_groups[:] = [group for group in groups if group["params"]]
    return optimizer


def _part(group: Mapping[str, Any], loaded: Collection[nn.Parameter], old: bool, factor: float) -> dict[str, Any]:
    """Return what of a group was loaded, or is new, with its own rate."""
    params = [parameter for parameter in group["params"] if (parameter in loaded) == old]
    return {**group, "params": params, "lr": group["lr"] * factor}


def build_schedule(
    recipe: Any,  # noqa: ANN401 - see `read_recipe`
    optimizer: torch.optim.Optimizer,
    total_steps: int,
) -> LRScheduler:
    """Build a schedule, to be advanced once per optimizer step; steps that torch's is not told are those of the run.

    Raises:
        ConfigError: torch refuses an option, or the schedule waits for a metric.
    """
    if hasattr(recipe, "build"):
        schedule: LRScheduler = recipe.build(optimizer, total_steps)
        return schedule
    open_steps = set(STEPS) & inspect.signature(recipe.func).parameters.keys() - recipe.keywords.keys()
    schedule = _build(recipe, optimizer, dict.fromkeys(open_steps, total_steps), "scheduler")
    if isinstance(schedule, ReduceLROnPlateau):
        raise ConfigError(
            "ReduceLROnPlateau needs a metric, but schedules advance at every step",
            where="scheduler",
            remedy="Use a schedule that depends on the step alone, such as torch.optim.lr_scheduler.StepLR",
        )
    return schedule


def _build(make: partial[Made], subject: object, options: Mapping[str, Any], where: str) -> Made:
    try:
        return make(subject, **options)
    except (TypeError, ValueError) as error:
        name = getattr(make.func, "__name__", "torch")
        raise ConfigError(f"{name} rejects its settings: {error}", where=where, remedy=f"Change {where}.*") from error
