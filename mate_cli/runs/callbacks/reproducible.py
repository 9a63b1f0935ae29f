"""Random numbers that depend on the seed and the position alone."""

from typing import Any

import pytorch_lightning as pl
import torch

from mate_cli.runs import ranks
from mate_cli.tokenization.layout import TableBatch


class Reproducible(pl.Callback):
    """Seed the generators before every micro-batch from (seed, its number among those of all processes).

    No generator has to be saved: a run that is resumed at any batch draws the dropout masks that the
    uninterrupted run draws there, and several processes on CPUs draw those that one would.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Count batches as this run does: it may cut steps into other micro-batches, for more or fewer processes."""
        progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
        more = checkpoint["global_step"] * trainer.accumulate_grad_batches - progress["current"]["ready"]
        for counts in (progress["total"], progress["current"]):
            counts.update({name: count + more for name, count in counts.items()})

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: TableBatch, batch_idx: int
    ) -> None:
        """Seed for this batch."""
        torch.manual_seed((self.seed << 32) + batch_idx * ranks.world_size() + ranks.rank())
