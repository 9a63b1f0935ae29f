"""Weights of one task cut in shards among processes (FSDP2), whose checkpoints are those of one process."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.strategies import ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from mate_cli.lit_modules.processes import cut_like, load_whole, whole


def shard(task: nn.Module, layers: Iterable[nn.Module], mesh: DeviceMesh) -> None:
    """Cut the weights of each layer, and of what else the task is made of; once."""
    for module in (*layers, *task.children()):
        if not isinstance(module, FSDPModule) and next(module.parameters(), None) is not None:
            fully_shard(module, mesh=mesh)


class Sharded(ModelParallelStrategy):
    """FSDP2 whose checkpoints are those of one process."""

    def __init__(self, processes: int) -> None:
        super().__init__(data_parallel_size=processes, tensor_parallel_size=1, save_distributed_checkpoint=False)

    @property
    def lightning_restore_optimizer(self) -> bool:
        """Lightning hands checkpoints to the methods below."""
        return True

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """Whole weights."""
        assert self.lightning_module is not None
        state: dict[str, Any] = whole(self.lightning_module.state_dict())
        return state

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        """Cut whole weights."""
        assert self.lightning_module is not None
        task = self.lightning_module.task
        assert isinstance(task, nn.Module)  # whose names the weights have
        load_whole(task, checkpoint["state_dict"])

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """The whole state of an optimizer."""
        state: dict[str, Any] = whole(getattr(optimizer, "_optimizer", optimizer).state_dict())
        return state

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        """Cut the whole state of each optimizer like its parameters."""
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            cut = {index: _moments_like(parameters[index], values) for index, values in state["state"].items()}
            optimizer.load_state_dict({**state, "state": cut})

    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = None) -> dict[str, Any]:
        """Read a checkpoint that one process wrote."""
        checkpoint: dict[str, Any] = torch.load(checkpoint_path, map_location="cpu", weights_only=weights_only)
        return checkpoint


def _moments_like(parameter: Tensor, values: Mapping[str, Any]) -> dict[str, Any]:
    """An optimizer's state of one parameter: what has its shape is cut like it."""
    if not isinstance(parameter, DTensor):
        return dict(values)
    fits = {name for name, value in values.items() if isinstance(value, Tensor) and value.shape == parameter.shape}
    return {name: cut_like(parameter, v, parameter) if name in fits else v for name, v in values.items()}
