"""Which weights are kept and when training stops, whether more or less of the monitored metric is better."""

from __future__ import annotations

import math
import signal
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch

from mate_cli.data.loading.batching import ORDER_VERSION
from mate_cli.errors import CheckpointError, ConfigError, RunError
from mate_cli.models.layers.low_rank import Lora
from mate_cli.runs.callbacks import Checkpoints
from mate_cli.runs.checkpoints import load_module
from mate_cli.runs.record import RunFolder


class FakeTrainer(SimpleNamespace):
    """What `Checkpoints` asks of a trainer; validation number n finds the model's weight to be n."""

    def save_checkpoint(self, path):
        path.write_bytes(b"")
        module = SimpleNamespace(task=SimpleNamespace(encoder=SimpleNamespace(lora=Lora())))
        self.checkpoints.on_save_checkpoint(self, module, {"state_dict": self.model.state_dict()})


def validate(checkpoints, scores, trainer=None):
    """Let one validation after another find these scores."""
    model = torch.nn.Linear(1, 1, bias=False)
    trainer = trainer or FakeTrainer(should_stop=False, global_step=0, callback_metrics={})
    trainer.checkpoints, trainer.model = checkpoints, model
    for score in scores:
        trainer.global_step += 1
        trainer.callback_metrics = {checkpoints.monitor: torch.tensor(score)}
        torch.nn.init.constant_(model.weight, trainer.global_step)
        checkpoints.on_validation_end(trainer, model)
    return trainer


def kept(folder):
    model = torch.nn.Linear(1, 1, bias=False)
    load_module(model, folder.checkpoints / "best.safetensors")
    return int(model.weight.item())


CASES = [
    ("dev/perplexity", [9.0, 4.0, 6.0, 3.0, 5.0], 4),
    ("dev/perplexity", [math.inf, math.nan, 7.0, 7.0], 3),
    ("dev/f1", [0.1, 0.4, 0.3, 0.4], 2),
    ("dev/f1", [0.0, math.nan, 0.0], 1),
    ("dev/f1", [math.nan, 0.2, math.nan], 2),
    ("dev/loss", [-1.0, -3.0, -2.0], 2),
]


@pytest.mark.parametrize(("monitor", "scores", "best"), CASES)
def test_the_best_weights_are_those_of_the_best_validation(tmp_path, monitor, scores, best):
    folder = RunFolder(tmp_path)
    validate(Checkpoints(folder, monitor, every_steps=10), scores)
    assert kept(folder) == best


@pytest.mark.parametrize("monitor", ["dev/perplexity", "dev/f1"])
def test_what_is_best_outlives_a_resume(tmp_path, monitor):
    folder = RunFolder(tmp_path)
    sign = 1 if monitor == "dev/perplexity" else -1
    first = Checkpoints(folder, monitor, every_steps=10)
    trainer = validate(first, [sign * 5.0, sign * 6.0])
    second = Checkpoints(folder, monitor, every_steps=10)
    second.load_state_dict(first.state_dict())
    validate(second, [sign * 5.5, sign * 5.0], trainer)
    assert kept(folder) == 1
    validate(second, [sign * 1.0], trainer)
    assert kept(folder) == 5


@pytest.mark.parametrize("order", [None, ORDER_VERSION - 1, ORDER_VERSION + 1])
def test_a_checkpoint_with_another_order_of_examples_is_refused(tmp_path, order):
    checkpoints = Checkpoints(RunFolder(tmp_path), "dev/f1", every_steps=10)
    state = {key: value for key, value in {**checkpoints.state_dict(), "order": order}.items() if value is not None}
    with pytest.raises(CheckpointError, match=r"last\.ckpt: .*orders training examples differently\. Move it away"):
        checkpoints.load_state_dict({"best_score": None, **state})


def test_a_run_that_a_callback_has_stopped_stays_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    first, second = (Checkpoints(RunFolder(tmp_path), "dev/f1", every_steps=10) for _ in range(2))
    trainer = FakeTrainer(should_stop=True, global_step=0, callback_metrics={})
    validate(first, [0.5], trainer)
    second.load_state_dict(first.state_dict())
    trainer.should_stop = False
    second.on_train_start(trainer, None)
    assert trainer.should_stop


def test_the_best_weights_are_those_that_callbacks_leave_in_the_checkpoint(tmp_path):
    checkpoints = Checkpoints(RunFolder(tmp_path), "dev/f1", every_steps=10)
    model, averaged = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(averaged.weight, 7)
    trainer = FakeTrainer(should_stop=False, global_step=1, callback_metrics={"dev/f1": torch.tensor(0.5)})
    trainer.checkpoints, trainer.model = checkpoints, averaged
    checkpoints.on_validation_end(trainer, model)
    assert kept(checkpoints.folder) == 7


def test_only_what_is_known_to_be_better_in_one_direction_chooses(tmp_path):
    with pytest.raises(ConfigError, match=r"metric dev/colour declares no direction\. .*MetricSpec named colour"):
        Checkpoints(RunFolder(tmp_path), "dev/colour", every_steps=1)


def test_a_validation_without_the_metric_is_named(tmp_path):
    checkpoints = Checkpoints(RunFolder(tmp_path), "dev/f1", every_steps=1)
    trainer = FakeTrainer(should_stop=False, global_step=1, callback_metrics={"dev/em": torch.tensor(0.1)})
    with pytest.raises(RunError, match=r"dev/f1 selects the best checkpoint, but validation did not compute it"):
        checkpoints.on_validation_end(trainer, torch.nn.Linear(1, 1))


class Counting(pl.Callback):
    """Any callback that has something to save."""

    def state_dict(self):
        return {"count": 1}


@pytest.mark.parametrize("left", [{}, {"Counting": {"count": 1}}, {"Checkpoints": {"run": ""}, "Counting": {}}])
def test_a_last_state_that_lacks_what_a_callback_saved_is_refused(tmp_path, left):
    checkpoints = Checkpoints(RunFolder(tmp_path), "dev/f1", every_steps=1)
    trainer = FakeTrainer(callbacks=[pl.Callback(), Counting(), checkpoints])
    checkpoints.on_load_checkpoint(trainer, None, {"callbacks": {"Checkpoints": {"run": ""}, "Counting": {"count": 1}}})
    missing = "Checkpoints" if left.get("Counting") else "Counting"
    with pytest.raises(CheckpointError, match=rf"last\.ckpt: .*damaged: it has no state of {missing}"):
        checkpoints.on_load_checkpoint(trainer, None, {"callbacks": left})
