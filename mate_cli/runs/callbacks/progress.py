"""The progress of a training, on the screen and as figures."""

import time
from typing import Any

import pytorch_lightning as pl
import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mate_cli.metrics.specs import MetricName
from mate_cli.runs import ranks
from mate_cli.runs.loggers import log_row
from mate_cli.runs.metric_rows import Row
from mate_cli.runs.record import Clock
from mate_cli.terminal.console import Console
from mate_cli.terminal.progress import PLAIN_SECONDS, time_text
from mate_cli.tokenization.layout import TableBatch


class FollowTraining(pl.Callback):
    """Show loss, examples/s, tokens/s and the time left; log them every few steps and after each validation.

    Args:
        log_every: optimizer steps between two rows.
    """

    def __init__(self, clock: Clock, log_every: int, console: Console) -> None:
        self.clock, self.log_every, self.console = clock, log_every, console
        self.examples = self.tokens = 0
        self._new_tokens: list[torch.Tensor] = []
        self.seconds, self.steps = 0.0, 0  # steps since this process began
        self._losses: list[torch.Tensor] = []
        self._loss: float | None = None
        self._lr = 0.0
        self._began = self._shown = time.monotonic()
        self._bar: Progress | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return counts, and the losses that are not in a row yet, so that a resumed run logs the same rows."""
        losses = [value / ranks.world_size() for value in ranks.all_reduce_sum([float(loss) for loss in self._losses])]
        return {"examples": self.examples, "tokens": self.tokens, "seconds": self.seconds, "losses": losses}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self._losses = [torch.tensor(float(loss)) for loss in state_dict["losses"]]
        self.examples, self.tokens = int(state_dict["examples"]), int(state_dict["tokens"])
        self.seconds = float(state_dict["seconds"])

    def throughput(self) -> Row:
        """Return the examples and real tokens per second of training, without validation."""
        seconds = max(self.seconds, 1e-9)
        return {"examples_per_second": self.examples / seconds, "tokens_per_second": self.tokens / seconds}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Open the bar where there is a terminal, and no bar of the `callbacks` group."""
        if not self.console.is_terminal or trainer.progress_bar_callback:
            return
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("[dim]{task.fields[rates]}"),
            TimeRemainingColumn(),
            console=self.console,
        )
        self._bar.start()
        self._task = self._bar.add_task(
            "training", total=_total_steps(trainer), completed=trainer.global_step, rates=""
        )

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: TableBatch, batch_idx: int
    ) -> None:
        """Start the watch, and let what other callbacks log of this step stand beside its loss."""
        self._began = time.monotonic()
        step = trainer.global_step + 1  # Lightning's own count is one behind, and says so in its rows
        trainer.fit_loop.epoch_loop._batches_that_stepped = step
        trainer.log_every_n_steps = int(self._is_logged(trainer, step))  # it would look at the step that follows

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Note the learning rate before the schedule moves on."""
        self._lr = optimizer.param_groups[0]["lr"]

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,  # noqa: ANN401 - Lightning's own
        batch: TableBatch,
        batch_idx: int,
    ) -> None:
        """Count, show and log."""
        self.seconds += time.monotonic() - self._began
        self.examples += len(batch.input_ids) * ranks.world_size()
        self._new_tokens.append(batch.attention_mask.sum())
        self._losses.append(outputs["loss"].detach())
        if (batch_idx + 1) % trainer.accumulate_grad_batches:
            return
        self.tokens += int(ranks.all_reduce_sum([int(torch.stack(self._new_tokens).sum())])[0])
        self._new_tokens.clear()
        self.steps += 1
        if self._is_logged(trainer, trainer.global_step):
            self._log(trainer)
        self._show(trainer)

    def _is_logged(self, trainer: pl.Trainer, step: int) -> bool:
        return step % self.log_every == 0 or step == _total_steps(trainer)

    def _log(self, trainer: pl.Trainer) -> None:
        mean = float(torch.stack([loss.cpu() for loss in self._losses]).mean())
        loss = ranks.all_reduce_sum([mean])[0] / ranks.world_size() * trainer.accumulate_grad_batches
        self._losses.clear()
        rates = {f"train/{name}": value for name, value in self.throughput().items()}
        self._loss = loss
        self._row(trainer, {"train/loss": loss, "train/lr": self._lr, **rates})

    def _row(self, trainer: pl.Trainer, values: Row) -> None:
        epoch = trainer.datamodule.epoch(trainer.global_step)
        row = {"epoch": epoch, "time": round(self.clock(), 2), **values}
        log_row(trainer.loggers, row, trainer.global_step)

    def _show(self, trainer: pl.Trainer) -> None:
        rates = self.throughput()
        text = f"{rates['examples_per_second']:.1f} examples/s {rates['tokens_per_second']:,.0f} tokens/s"
        if self._loss is not None:
            text = f"loss {self._loss:.3f} {text}"
        if self._bar:
            self._bar.update(self._task, completed=trainer.global_step, rates=text)
        elif trainer.progress_bar_callback:
            return
        elif time.monotonic() - self._shown > PLAIN_SECONDS or trainer.global_step == _total_steps(trainer):
            self._shown = time.monotonic()
            left = (_total_steps(trainer) - trainer.global_step) * self._per_step(trainer)
            place = f"step {trainer.global_step}/{_total_steps(trainer)}"
            self.console.print_progress(f"{place} {text} {time_text(left)} left")

    def _per_step(self, trainer: pl.Trainer) -> float:
        schedule = trainer.datamodule.schedule
        return self.seconds * schedule.batch_size / max(self.examples, 1)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log and print the metrics of the development split."""
        metrics = {name: float(v) for name, v in trainer.callback_metrics.items() if name.startswith("dev/")}
        self._row(trainer, metrics)
        whole = {name: value for name, value in metrics.items() if name.count("/") == 1}
        shown = "  ".join(f"{name} {MetricName.parse(name).spec.text(value)}" for name, value in whole.items())
        self.console.print(f"step {trainer.global_step}: {shown}")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Close the bar."""
        self.close()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Close the bar, so that the message stands on a line of its own."""
        self.close()

    def close(self) -> None:
        """Close the bar where one is open."""
        if self._bar:
            self._bar.stop()
            self._bar = None


def _total_steps(trainer: pl.Trainer) -> int:
    return int(trainer.datamodule.schedule.total_steps)
