"""Where Lightning runs a network: on one device, or on those of all processes that were started together."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from omegaconf import DictConfig
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.strategies import DDPStrategy, Strategy

from mate_cli.runs import ranks


def placement(hardware: DictConfig, *, training: bool = False) -> dict[str, Any]:
    """Options of `pl.Trainer`.

    Args:
        hardware: the machine.
        training: whether gradients are shared, and weights where the strategy is fsdp.
    """
    options = {"accelerator": hardware.accelerator, "precision": hardware.precision}
    # Always named, so that Lightning does not go by what Slurm says of a job: the processes are there already.
    options |= {"plugins": [LightningEnvironment()], "devices": ranks.devices(), "num_nodes": 1}
    if not dist.is_initialized():
        return options
    strategy: Strategy = DDPStrategy(gradient_as_bucket_view=True)
    return {**options, "num_nodes": ranks.count() // ranks.devices(), "strategy": strategy}
