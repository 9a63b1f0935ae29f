"""What the rows of a training say of a step: its loss, the rate that it used, and what other callbacks log of it."""

import time
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from mate_cli.lit_modules.optimization.schedules import BertLinear, LinearSchedule, PowerSchedule
from mate_cli.runs.callbacks import FollowTraining
from mate_cli.runs.loggers import MetricsFile
from mate_cli.runs.metrics_file import read_rows
from mate_cli.runs.record import Clock, RunFolder
from mate_cli.terminal import progress
from mate_cli.terminal.console import Console


class Learner(pl.LightningModule):
    """One weight, whose loss is told beforehand by the number of the step, from 1."""

    def __init__(self, schedule, steps):
        super().__init__()
        self.weight, self.schedule, self.steps = nn.Parameter(torch.zeros(())), schedule, steps

    def training_step(self, batch, place):
        return self.weight * 0 + batch.number

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=1.0)
        return [optimizer], [{"scheduler": self.schedule.build(optimizer, self.steps), "interval": "step"}]


class Numbers(pl.LightningDataModule):
    def __init__(self, steps, accumulate):
        super().__init__()
        self.schedule = SimpleNamespace(total_steps=steps, batch_size=accumulate)
        one = torch.ones(1, 1)
        self.batches = [
            SimpleNamespace(input_ids=one, attention_mask=one, number=1 + place // accumulate)
            for place in range(steps * accumulate)
        ]

    def epoch(self, step):
        return 0.0

    def train_dataloader(self):
        return torch.utils.data.DataLoader(self.batches, batch_size=None)


class Slow(pl.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, place):
        time.sleep(0.06)


class Own(pl.Callback):
    """A callback that logs the number of the step by the door of Lightning."""

    def on_train_batch_end(self, trainer, module, outputs, batch, place):
        module.log("own/number", float(batch.number))


def rows_of(folder, schedule, steps, accumulate=1, every=1, bar=False, callbacks=()):
    """Train for so many steps; return the rows by step, each with all that was logged of it."""
    logger = MetricsFile(RunFolder(folder))
    trainer = pl.Trainer(
        max_epochs=1,
        accumulate_grad_batches=accumulate,
        log_every_n_steps=every,
        logger=logger,
        accelerator="cpu",
        default_root_dir=folder,
        enable_checkpointing=False,
        enable_progress_bar=bar,
        enable_model_summary=False,
        callbacks=[
            FollowTraining(Clock(), every, Console()),
            pl.callbacks.LearningRateMonitor("step"),
            Own(),
            *callbacks,
        ],
    )
    trainer.fit(Learner(schedule, steps), datamodule=Numbers(steps, accumulate))
    rows: dict[int, dict[str, float]] = {}
    for row in read_rows(logger.path):
        rows.setdefault(row["step"], {}).update(row)
    return rows


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_row_has_the_rate_that_its_step_used_and_what_callbacks_log_of_it(tmp_path, accumulate):
    rows = rows_of(tmp_path, BertLinear(warmup=0.4), steps=10, accumulate=accumulate)
    assert [rows[step]["train/lr"] for step in range(1, 11)] == pytest.approx(
        [0.25, 0.25, 0.5, 0.75, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    )
    assert list(rows) == list(range(1, 11))
    for step, row in rows.items():
        assert (row["train/loss"], row["own/number"], row["lr-SGD"]) == (step, step, row["train/lr"])


@pytest.mark.parametrize("ranks", [1, 2])
def test_all_that_is_logged_now_and_then_is_of_the_same_steps_and_the_last_one_is_among_them(
    tmp_path, monkeypatch, ranks
):
    # Further ranks log the same numbers as this one.
    monkeypatch.setattr("mate_cli.runs.ranks.world_size", lambda: ranks)
    monkeypatch.setattr("mate_cli.runs.ranks.all_reduce_sum", lambda values: [ranks * value for value in values])
    rows = rows_of(tmp_path, LinearSchedule(), steps=8, every=3)
    assert list(rows) == [3, 6, 8]
    assert [row["train/loss"] for row in rows.values()] == [2, 5, 7.5]
    assert [row["own/number"] for row in rows.values()] == [3, 6, 8]
    assert all(row["lr-SGD"] == row["train/lr"] for row in rows.values())


@pytest.mark.parametrize("steps", [1, 2, 3, 20])
@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("kind", [BertLinear, LinearSchedule, PowerSchedule])
def test_no_update_is_lost(kind, warmup, steps):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    (rate,) = kind(warmup=warmup).build(optimizer, steps).lr_lambdas
    rates = [rate(step) for step in range(steps)]
    assert all(0 < rate <= 1 for rate in rates), rates


@pytest.mark.parametrize("bar", [False, True])
def test_progress_shows_loss_and_speed_unless_lightning_draws_a_bar(tmp_path, capsys, monkeypatch, bar):
    for name in ("PLAIN_DELAY", "PLAIN_SECONDS", "REFRESH"):
        monkeypatch.setattr(progress, name, 0.01)
    rows_of(tmp_path, LinearSchedule(), steps=6, bar=bar, callbacks=[Slow()])
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("training ")]
    assert any(" of 6 steps, loss " in line and " examples/s, " in line for line in lines) is not bar


def test_the_progress_of_a_resumed_training_begins_at_the_steps_that_are_done():
    training = SimpleNamespace(
        progress_bar_callback=None, global_step=6, max_steps=9, datamodule=Numbers(9, 1), estimated_stepping_batches=9
    )
    follow = FollowTraining(Clock(), 1, Console())
    follow.on_train_start(training, None)
    assert progress._LINE._works == [follow._progress]
    assert follow._progress.text().startswith("training 6 of 9 steps")
    follow.on_train_end(training, None)
    assert not progress._LINE._works
