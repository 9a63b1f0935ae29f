"""Where Lightning runs a network, on one device or on those of all processes, without its own printing and saving."""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.strategies import DDPStrategy

from mate_cli.pipelines.assembly import Parts
from mate_cli.pipelines.machine import device_of, fill_in
from mate_cli.runs import ranks
from mate_cli.runs.configuration import Hardware

QUIET = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "use_distributed_sampler": False,
}
"""Logging and saving are done by this program itself."""


def placement(hardware: Hardware, *, training: bool = False) -> dict[str, Any]:
    """Options of `pl.Trainer`; in training gradients are shared, else each process works for itself.

    Raises:
        ConfigError: the machine lacks what the hardware names.
    """
    hardware = fill_in(hardware, moved=not training)
    # The environment is always named, so that Lightning does not go by what Slurm says of a job.
    own = [LightningEnvironment()]
    options = {**QUIET, "accelerator": hardware.accelerator, "precision": hardware.precision, "plugins": own}
    if not dist.is_initialized():
        return {**options, "devices": 1}
    if not training:
        return {**options, "devices": 1 if hardware.accelerator == "cpu" else [ranks.local_rank()]}
    strategy = DDPStrategy(gradient_as_bucket_view=True)
    return {**options, "devices": hardware.devices, "num_nodes": hardware.nodes, "strategy": strategy}


def prepare(parts: Parts, hardware: Hardware) -> Mapping[str, str]:
    """Change new weights by what the training split is like, on the device that will train; say what was done.

    The first process measures, and the others take its numbers.
    """
    encoder, cpu = parts.task.encoder, torch.device("cpu")
    device = cpu if encoder.extra is None else device_of(hardware)
    encoder.to(device)
    batches = (batch.to(device) for batch in parts.data.every_batch())
    try:
        return parts.initializer.prepare(encoder, batches, parts.report, ranks.from_first)
    finally:
        encoder.to(cpu)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Hide Lightning's advice on loaders and devices, which is settled here.

    Raises:
        KeyboardInterrupt: what Lightning makes an exit of.
    """
    for name in ("pytorch_lightning", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pytorch_lightning")
        warnings.filterwarnings("ignore", module="lightning_fabric")
        try:
            yield
        except SystemExit as stop:
            if isinstance(stop.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from stop
            raise
