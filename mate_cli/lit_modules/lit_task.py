"""The Lightning modules: one trains any task, that is a network with its head, and one serves any data.

Tasks and data are torch alone, so that nothing but training imports Lightning.
"""

from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from mate_cli.data.loading.batching import Schedule
from mate_cli.data.loading.table_data_module import TableDataModule
from mate_cli.errors import RunError
from mate_cli.lit_modules.base import TableTask, add_up
from mate_cli.lit_modules.optimization.recipe import Optimization
from mate_cli.metrics.pruning import pruning_scores
from mate_cli.tables.example import Example
from mate_cli.tokenization.layout import TableBatch

COUNTS, LOSSES = "attention", "losses"
"""Keys of a checkpoint for the counts of attention backends, and of examples with a loss."""


class LitTask(pl.LightningModule):
    """A task as Lightning trains and validates it; its state has the names of the task's own weights.

    Args:
        task: a network with its head.
        optimization: how its weights are moved.
        development: the examples that validations score, by name.
    """

    def __init__(
        self, task: TableTask[Any, Any], optimization: Optimization, development: Mapping[str, Example]
    ) -> None:
        super().__init__()
        self.task, self.optimization, self.development = task, optimization, development
        self._losses: list[torch.Tensor] = []
        self.register_load_state_dict_pre_hook(_name_below_task)

    def state_dict(self, *args: Any, **options: Any) -> dict[str, Any]:
        """Return the weights of the task."""
        return self.task.state_dict(*args, **options)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:  # noqa: ANN401 - torch's own
        """Give the task its weights."""
        return self.task.load_state_dict(state_dict, strict, assign)

    def configure_optimizers(self) -> Any:  # noqa: ANN401 - Lightning's own union of types
        """Build the optimizer and the schedule of this run."""
        # Under 16-mixed Lightning unscales the gradients before they are clipped, which a fused optimizer prevents.
        optimizer = self.optimization.optimizer.build(self.task, fused=self.trainer.precision != "16-mixed")
        schedule = self.optimization.schedule.build(optimizer, self.optimization.total_steps)
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


def _name_below_task(module: torch.nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Give weights the names that torch looks for where a module around this one is loaded, as an average of it is."""
    for name in [name for name in state if name.startswith(prefix) and not name.startswith(f"{prefix}task.")]:
        state[f"{prefix}task.{name.removeprefix(prefix)}"] = state.pop(name)


class LitData(pl.LightningDataModule):
    """The splits of a run as Lightning asks for them."""

    def __init__(self, data: TableDataModule) -> None:
        super().__init__()
        self.data = data

    @property
    def schedule(self) -> Schedule:
        """Sizes of batches and of the run."""
        return self.data.schedule

    def epoch(self, step: int) -> float:
        """Return passes over the training split after `step` optimizer steps."""
        return self.data.epoch(step)

    def train_dataloader(self) -> DataLoader[TableBatch]:
        """Return the whole run as one pass, or the rest of it."""
        return self.data.train_dataloader()

    def val_dataloader(self) -> DataLoader[TableBatch]:
        """Return the development split."""
        return self.data.loader("dev")
