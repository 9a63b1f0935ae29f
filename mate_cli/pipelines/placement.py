"""Where Lightning runs a network: on one device, or on those of all processes that were started together."""

from collections.abc import Mapping
from typing import Any

import torch.distributed as dist
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.strategies import DDPStrategy, Strategy

from mate_cli.lit_modules.distributed.sharding import Sharded
from mate_cli.pipelines.assembly import Parts
from mate_cli.runs import ranks
from mate_cli.runs.configuration import Hardware


def placement(hardware: Hardware, *, training: bool = False) -> dict[str, Any]:
    """Options of `pl.Trainer`; in training gradients are shared, else each process works for itself."""
    # The environment is always named, so that Lightning does not go by what Slurm says of a job.
    own = [LightningEnvironment()]
    options = {"accelerator": hardware.accelerator, "precision": hardware.precision, "plugins": own}
    if not dist.is_initialized():
        return {**options, "devices": 1}
    if not training:
        return {**options, "devices": 1 if hardware.accelerator == "cpu" else [ranks.rank() % ranks.devices()]}
    cut = hardware.strategy == "fsdp"
    strategy: Strategy = Sharded(ranks.world_size()) if cut else DDPStrategy(gradient_as_bucket_view=True)
    return {
        **options,
        "devices": ranks.devices(),
        "num_nodes": ranks.world_size() // ranks.devices(),
        "strategy": strategy,
    }


def prepare(parts: Parts, hardware: Hardware) -> Mapping[str, str]:
    """Change new weights by what the training split is like, on the device that will train; say what was done.

    The first process measures, and the others take its numbers.
    """
    encoder, cpu = parts.task.encoder, "cpu"
    on_gpu = hardware.accelerator == "gpu" and encoder.extra is not None
    device = f"cuda:{ranks.rank() % ranks.devices()}" if on_gpu else cpu
    encoder.to(device)
    batches = (batch.to(device) for batch in parts.data.every_batch())
    try:
        return parts.initializer.prepare(encoder, batches, parts.report, ranks.from_first)
    finally:
        encoder.to(cpu)
