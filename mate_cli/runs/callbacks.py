"""Lightning callbacks of every run: checkpoints, seeding of micro-batches and progress."""

import signal
import threading
import time
from contextlib import ExitStack, nullcontext
from types import FrameType
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from mate_cli.data.loading.batching import ORDER_VERSION
from mate_cli.errors import CheckpointError, Interrupted, RunError
from mate_cli.files.atomic import replace_file
from mate_cli.metrics.specs import MetricName, spec_to_follow
from mate_cli.models.layers.low_rank import merge_state
from mate_cli.runs import ranks
from mate_cli.runs.checkpoints import FROM_THE_BEGINNING, save_weights
from mate_cli.runs.loggers import log_row
from mate_cli.runs.metrics_file import Row
from mate_cli.runs.record import Clock, RunFolder
from mate_cli.terminal.console import Console
from mate_cli.terminal.progress import Progress
from mate_cli.tokenization.layout import TableBatch

TWICE = 2.0
"""Seconds after a signal in which a rank of a distributed run ignores a second signal. The scheduler and the launcher
may both send the first signal."""


class Checkpoints(pl.callbacks.Checkpoint):
    """Callback that saves `last.ckpt` and `best.safetensors`, and stops the run on signals.

    `last.ckpt`, from which a run is resumed, is saved at optimizer steps and after validations. `best.safetensors`
    contains the weights of the validation with the best `monitor`. Lightning calls checkpoint callbacks after all other
    callbacks, so `last.ckpt` contains the states and the changes of all callbacks.

    Args:
        folder: run folder.
        monitor: metric that selects the best checkpoint. Its spec defines whether higher or lower is better.
        every_steps: optimizer steps between two saves of `last.ckpt`.
        run: identifier of the run, such as its start time. A checkpoint of another run is rejected.

    Raises:
        ConfigError: no spec defines whether higher or lower values of `monitor` are better.
    """

    def __init__(self, folder: RunFolder, monitor: str, every_steps: int, run: str = "") -> None:
        self.run = run
        self.folder, self.monitor, self.every_steps = folder, monitor, every_steps
        self.spec = spec_to_follow(monitor)
        self.best_score: float | None = None
        self.best_step = self._validated = -1
        self.stopped = self._is_best = False
        self.signal: int | None = None
        self._told = 0.0

    def state_dict(self) -> dict[str, Any]:
        """Return the best score, its step and the run identifier, which a resumed run restores."""
        return {
            "run": self.run,
            "order": ORDER_VERSION,
            "best_score": self.best_score,
            "best_step": self.best_step,
            "stopped": self.stopped,
        }

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Raise `CheckpointError` if a checkpoint lacks the state of a callback.

        Lightning itself ignores a missing state.

        Raises:
            CheckpointError: the state of a callback is missing. The error names the first such callback.
        """
        for callback in trainer.callbacks:
            if callback.state_dict() and not checkpoint["callbacks"].get(callback.state_key):
                problem = f"the checkpoint is damaged: it has no state of {type(callback).__name__}"
                raise CheckpointError(problem, where=self._last, remedy=FROM_THE_BEGINNING)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best score and step from `state_dict`.

        Raises:
            CheckpointError: the state belongs to another run, was saved with another order of examples, or is invalid.
        """
        score, step = state_dict.get("best_score"), state_dict.get("best_step")
        if not isinstance(score, (float, type(None))) or type(step) is not int:
            raise CheckpointError("the checkpoint is damaged", where=self._last, remedy=FROM_THE_BEGINNING)
        if ranks.is_rank_zero() and state_dict.get("run") != self.run:
            raise CheckpointError("the checkpoint belongs to another run", where=self._last, remedy=FROM_THE_BEGINNING)
        if state_dict.get("order") != ORDER_VERSION:
            problem = "the checkpoint was saved by a version of mate that orders training examples differently"
            raise CheckpointError(problem, where=self._last, remedy=FROM_THE_BEGINNING)
        self.best_score, self.best_step, self.stopped = score, step, bool(state_dict.get("stopped"))

    @property
    def _last(self) -> str:
        return str(self.folder.checkpoints / "last.ckpt")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Install handlers for Ctrl-C and the signals of schedulers, if called in the main thread."""
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
        for number in signals if threading.current_thread() is threading.main_thread() else ():
            # nohup ignores SIGHUP, and the run must keep ignoring it.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._remember)
        # If a callback had already stopped the run before it was interrupted, the resumed run stops too.
        trainer.should_stop = self.stopped

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            if ranks.world_size() == 1 or time.monotonic() - self._told > TWICE:
                raise Interrupted
            return
        self.signal, self._told = number, time.monotonic()
        print("\nStopping at the next optimizer step; once more to stop now, at the last saved one.", flush=True)

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,  # noqa: ANN401 - Lightning's own
        batch: Any,  # noqa: ANN401
        batch_idx: int,
    ) -> None:
        """Save `last.ckpt` every `every_steps` optimizer steps and after a signal.

        Before a validation nothing is saved, because `on_validation_end` saves `last.ckpt`.

        Raises:
            Interrupted: a rank has received a signal.
        """
        batches = batch_idx + 1
        if batches % trainer.accumulate_grad_batches:
            return
        if batches == trainer.num_training_batches:
            # Lightning then validates after the last step, regardless of the validation interval.
            trainer.should_stop = True
        if trainer.should_stop or batches % trainer.val_check_batch == 0:
            return
        # A signal may reach a single rank, or several ranks at different steps.
        interrupted = ranks.any_rank(self.signal is not None)
        if interrupted or trainer.global_step % self.every_steps == 0:
            self._save_last(trainer)
        if interrupted:
            raise Interrupted

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save `last.ckpt`, and `best.safetensors` if the monitored metric is the best so far.

        Raises:
            Interrupted: a rank has received a signal.
        """
        self._validated = trainer.global_step
        score = self._score(trainer)
        self._is_best = self.spec.is_better(score, self.best_score)
        if self._is_best:
            self.best_score, self.best_step = score, trainer.global_step
        self._save_last(trainer)
        self._is_best = False
        if ranks.any_rank(self.signal is not None):
            raise Interrupted

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Save the checkpoints after a validation in which another callback raised an exception.

        Lightning then does not call `on_validation_end` of this callback. Runs with several ranks save nothing.
        """
        fails = trainer.validating and isinstance(exception, Exception) and self._validated != trainer.global_step
        if fails and self.monitor in trainer.callback_metrics and ranks.world_size() == 1:
            self.on_validation_end(trainer, pl_module)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Write the weights to `best.safetensors` if the last validation was the best so far.

        These are the weights that were validated, which another callback may have averaged over steps. LoRA adapters
        are merged into the written weights. `checkpoint` itself is unchanged.
        """
        if self._is_best:
            state = merge_state(checkpoint["state_dict"], pl_module.task.encoder.lora.scale)
            save_weights(state, self.folder.place("checkpoints/best.safetensors"))

    def _score(self, trainer: pl.Trainer) -> float:
        """Return the monitored metric of the last validation.

        Raises:
            RunError: the validation did not compute the metric.
        """
        if self.monitor not in trainer.callback_metrics:
            scores = ", ".join(trainer.callback_metrics) or "nothing"
            problem = f"{self.monitor} selects the best checkpoint, but validation did not compute it"
            hint = "Use a dev split with answers, or let the task monitor a computed metric"
            raise RunError(problem, where=f"the validation computed {scores}", remedy=hint)
        return float(trainer.callback_metrics[self.monitor])

    def _save_last(self, trainer: pl.Trainer) -> None:
        self.stopped = trainer.should_stop
        target = self.folder.place("checkpoints/last.ckpt")
        try:
            # All ranks call `save_checkpoint`, which gathers the state that rank 0 writes.
            with replace_file(target) if ranks.is_rank_zero() else nullcontext(target) as draft:
                trainer.save_checkpoint(draft)
        except (OSError, RuntimeError) as error:
            problem = f"the checkpoint cannot be written: {getattr(error, 'strerror', None) or error}"
            hint = "Free space, then continue with resume=last from the checkpoint before"
            raise RunError(problem, where=str(target), remedy=hint) from error


class Reproducible(pl.Callback):
    """Callback that seeds torch before every micro-batch from (seed, index over all ranks).

    Checkpoints therefore need no generator states. A run resumed at any batch samples the same dropout masks as the
    uninterrupted run, and several ranks on CPUs sample the same masks as a single process.

    Args:
        seed: seed of the run.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Adapt Lightning's batch counters to the micro-batches per step of the resumed run.

        The micro-batch size or the world size may differ from the interrupted run.
        """
        progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
        more = checkpoint["global_step"] * trainer.accumulate_grad_batches - progress["current"]["ready"]
        for counts in (progress["total"], progress["current"]):
            counts.update({name: count + more for name, count in counts.items()})

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: TableBatch, batch_idx: int
    ) -> None:
        """Seed torch from the run seed and the index of this micro-batch over all ranks."""
        number = batch_idx * ranks.world_size() + ranks.rank()
        # A CPU generator reads only the lower 32 bits, so seed and index are mixed into all 64 bits.
        torch.manual_seed(int(np.random.SeedSequence((self.seed, number)).generate_state(1, np.uint64)[0]))


class FollowTraining(pl.Callback):
    """Lightning callback that shows training progress, and logs loss, learning rate and speed.

    A row is logged every `log_every` optimizer steps, and a row with the dev metrics after each validation.

    Args:
        clock: wall-clock timer of the run.
        log_every: optimizer steps between two rows.
        console: console for the metrics.
    """

    def __init__(self, clock: Clock, log_every: int, console: Console) -> None:
        self.clock, self.log_every, self.console = clock, log_every, console
        self.examples = self.tokens = 0
        self._new_tokens: list[torch.Tensor] = []
        # `steps` counts the optimizer steps of this process, `seconds` includes earlier parts of a resumed run.
        self.seconds, self.steps = 0.0, 0
        self._new_losses: list[torch.Tensor] = []
        self._losses: list[torch.Tensor] = []
        self._loss: float | None = None
        self._lr = 0.0
        self._began = time.monotonic()
        self._progress, self._shown = Progress("training"), ExitStack()

    def state_dict(self) -> dict[str, Any]:
        """Return the counters of examples, tokens and seconds, and the losses not yet logged.

        With these values, a resumed run logs the same rows as an uninterrupted run.
        """
        losses = [value / ranks.world_size() for value in ranks.all_reduce_sum([float(loss) for loss in self._losses])]
        return {"examples": self.examples, "tokens": self.tokens, "seconds": self.seconds, "losses": losses}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the counters, and the losses since the last row, from `state_dict`."""
        self._losses = [torch.tensor(float(loss)) for loss in state_dict["losses"]]
        self.examples, self.tokens = int(state_dict["examples"]), int(state_dict["tokens"])
        self.seconds = float(state_dict["seconds"])

    def throughput(self) -> Row:
        """Return examples and non-padding tokens per second of training time, validation excluded."""
        seconds = max(self.seconds, 1e-9)
        return {"examples_per_second": self.examples / seconds, "tokens_per_second": self.tokens / seconds}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Show progress, unless the run has a progress bar of Lightning."""
        self._progress = Progress("training", _total_steps(trainer), "steps")
        self._progress.start_at(trainer.global_step)
        if not trainer.progress_bar_callback:
            self._shown.enter_context(self._progress)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: TableBatch, batch_idx: int
    ) -> None:
        """Start the timer of the micro-batch.

        Also makes Lightning log the values of other callbacks at the same optimizer step as the loss.
        """
        self._began = time.monotonic()
        # Lightning would log this step under the index before it, and test the step after it for `log_every_n_steps`.
        step = trainer.global_step + 1
        trainer.fit_loop.epoch_loop._batches_that_stepped = step
        trainer.log_every_n_steps = int(self._is_logged(trainer, step))

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Store the learning rate of this step for the log, before the scheduler changes it."""
        self._lr = optimizer.param_groups[0]["lr"]

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,  # noqa: ANN401 - Lightning's own
        batch: TableBatch,
        batch_idx: int,
    ) -> None:
        """Count the examples and tokens of a micro-batch, and log a row every `log_every` steps.

        The progress bar is updated after each optimizer step.
        """
        self.seconds += time.monotonic() - self._began
        self.examples += len(batch.input_ids) * ranks.world_size()
        self._new_tokens.append(batch.attention_mask.sum())
        # Lightning has already divided the loss by the number of accumulated micro-batches.
        self._new_losses.append(outputs["loss"].detach())
        if (batch_idx + 1) % trainer.accumulate_grad_batches:
            return
        self.tokens += int(ranks.all_reduce_sum([int(torch.stack(self._new_tokens).sum())])[0])
        self._losses.append(torch.stack(self._new_losses).sum())
        self._new_tokens.clear()
        self._new_losses.clear()
        self.steps += 1
        if self._is_logged(trainer, trainer.global_step):
            self._log(trainer)
        loss, rate = "" if self._loss is None else f", loss {self._loss:.3f}", self.throughput()["examples_per_second"]
        self._progress.done, self._progress.detail = trainer.global_step, f"{loss}, {rate:.1f} examples/s"

    def _is_logged(self, trainer: pl.Trainer, step: int) -> bool:
        return step % self.log_every == 0 or step == _total_steps(trainer)

    def _log(self, trainer: pl.Trainer) -> None:
        mean = float(torch.stack([loss.cpu() for loss in self._losses]).mean())
        loss = ranks.all_reduce_sum([mean])[0] / ranks.world_size()
        self._losses.clear()
        rates = {f"train/{name}": value for name, value in self.throughput().items()}
        self._loss = loss
        self._row(trainer, {"train/loss": loss, "train/lr": self._lr, **rates})

    def _row(self, trainer: pl.Trainer, values: Row) -> None:
        epoch = trainer.datamodule.epoch(trainer.global_step)
        row = {"epoch": epoch, "time": round(self.clock(), 2), **values}
        log_row(trainer.loggers, row, trainer.global_step)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log all metrics of the dev split, and print the metrics that are not of a subset."""
        metrics = {name: float(v) for name, v in trainer.callback_metrics.items() if name.startswith("dev/")}
        self._row(trainer, metrics)
        overall = {name: value for name, value in metrics.items() if name.count("/") == 1}
        text = "  ".join(f"{name} {MetricName.parse(name).spec.text(value)}" for name, value in overall.items())
        self.console.print(f"step {trainer.global_step}: {text}")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop showing progress."""
        self._shown.close()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Stop showing progress, so that the error message gets a separate line."""
        self._shown.close()


def _total_steps(trainer: pl.Trainer) -> int:
    return int(trainer.datamodule.schedule.total_steps)
