"""The last state of a run, to continue from, and its best weights."""

import signal
import time
from contextlib import nullcontext
from types import FrameType
from typing import Any

import pytorch_lightning as pl

from mate_cli.errors import CheckpointError, Interrupted, RunError
from mate_cli.files.atomic import replace_file
from mate_cli.metrics.specs import spec_to_follow
from mate_cli.models.layers.low_rank import merge_state
from mate_cli.runs import ranks
from mate_cli.runs.record import RunFolder
from mate_cli.runs.weights import save_weights

TWICE = 2.0
"""Seconds in which a second signal to one of several processes is the first: of the scheduler, and who started it."""
FROM_THE_BEGINNING = "Move it away to train this run from the beginning"


class Checkpoints(pl.callbacks.Checkpoint):
    """Save `last.ckpt` at optimizer steps and `best.safetensors` after validations that improve; stop on signals.

    Lightning calls it after all other callbacks, so that what these change or count is saved.

    Args:
        monitor: the metric that chooses the best weights; its spec says whether more or less is better.
        run: what tells the run from others, such as when it was started; a state of another one is refused.

    Raises:
        ConfigError: nobody says which way the metric is better.
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
        """Return the state that a resumed run needs."""
        return {
            "run": self.run,
            "best_score": self.best_score,
            "best_step": self.best_step,
            "stopped": self.stopped,
        }

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Refuse a last state that lacks what any callback of the trainer saved: Lightning would go on without it.

        Raises:
            CheckpointError: naming the first that is missing.
        """
        for callback in trainer.callbacks:
            if callback.state_dict() and not checkpoint["callbacks"].get(callback.state_key):
                problem = f"the checkpoint is damaged: it has no state of {type(callback).__name__}"
                raise CheckpointError(problem, where=self._last, remedy=FROM_THE_BEGINNING)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from `state_dict`.

        Raises:
            CheckpointError: it is another run's, or no state of this kind.
        """
        score, step = state_dict.get("best_score"), state_dict.get("best_step")
        if not isinstance(score, (float, type(None))) or type(step) is not int:
            raise CheckpointError("the checkpoint is damaged", where=self._last, remedy=FROM_THE_BEGINNING)
        if ranks.is_rank_zero() and state_dict.get("run") != self.run:
            raise CheckpointError("the checkpoint belongs to another run", where=self._last, remedy=FROM_THE_BEGINNING)
        self.best_score, self.best_step, self.stopped = score, step, bool(state_dict.get("stopped"))

    @property
    def _last(self) -> str:
        return str(self.folder.checkpoints / "last.ckpt")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Take over Ctrl-C and the signals by which schedulers stop a job."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as below nohup
                signal.signal(number, self._remember)
        trainer.should_stop = self.stopped  # a run that was killed after a callback had stopped it stays stopped

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
        """Save at the boundary of an optimizer step, unless a validation follows, which saves after it."""
        done = batch_idx + 1
        if done % trainer.accumulate_grad_batches:
            return
        if done == trainer.num_training_batches:
            trainer.should_stop = True  # makes Lightning validate after the last step, wherever the interval falls
        if trainer.should_stop or done % trainer.val_check_batch == 0:
            return
        asked = ranks.any_rank(self.signal is not None)  # a signal may reach one process, or all at different steps
        if asked or trainer.global_step % self.every_steps == 0:
            self._save_last(trainer)
        if asked:
            raise Interrupted

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save the last state, and the weights when they are the best so far."""
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
        """Save after a validation at whose end another callback fails: that one comes first."""
        fails = trainer.validating and isinstance(exception, Exception) and self._validated != trainer.global_step
        if fails and self.monitor in trainer.callback_metrics and ranks.world_size() == 1:
            self.on_validation_end(trainer, pl_module)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Keep the best weights: those of the checkpoint, which are the ones that were scored, averaged or not.

        Adapters are merged into them, and stay as they are in the checkpoint.
        """
        if self._is_best:
            state = merge_state(checkpoint["state_dict"], pl_module.task.encoder.lora.scale)
            save_weights(state, self.folder.place("checkpoints/best.safetensors"))

    def _score(self, trainer: pl.Trainer) -> float:
        """Return the monitored metric of the last validation.

        Raises:
            RunError: the validation did not give it.
        """
        if self.monitor not in trainer.callback_metrics:
            scores = ", ".join(trainer.callback_metrics) or "nothing"
            raise RunError(
                f"no {self.monitor} was computed in validation, but it chooses the best weights",
                where=f"the validation computed {scores}",
                remedy="Use a dev split with answers, or let the task monitor a computed metric",
            )
        return float(trainer.callback_metrics[self.monitor])

    def _save_last(self, trainer: pl.Trainer) -> None:
        self.stopped = trainer.should_stop
        target = self.folder.place("checkpoints/last.ckpt")
        try:
            # All processes gather what the first one writes.
            with replace_file(target) if ranks.is_rank_zero() else nullcontext(target) as draft:
                trainer.save_checkpoint(draft)
        except (OSError, RuntimeError) as error:
            raise RunError(
                f"the checkpoint cannot be written: {getattr(error, 'strerror', None) or error}",
                where=str(target),
                remedy="Free space, then continue with resume=last from the checkpoint before",
            ) from error
