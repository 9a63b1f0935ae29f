"""Several processes at one task: predictions brought together, weights cut in shards (FSDP2) and made whole for files.

What is saved does not tell in how many processes, or by which strategy, it was trained.
"""

from collections.abc import Iterable, Mapping
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from pytorch_lightning.strategies import ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.utils._pytree import tree_map_only


def shard(task: nn.Module, layers: Iterable[nn.Module], mesh: DeviceMesh) -> None:
    """Cut the weights of each layer, and of what else the task is made of; once."""
    for module in (*layers, *task.children()):
        if not isinstance(module, FSDPModule) and next(module.parameters(), None) is not None:
            fully_shard(module, mesh=mesh)


def whole(state: Any) -> Any:  # noqa: ANN401 - any nest of tensors
    """The same state with whole tensors on the CPU; every process must ask for it."""
    gathered = tree_map_only(DTensor, lambda tensor: tensor.full_tensor(), state)
    return tree_map_only(Tensor, lambda tensor: tensor.detach().cpu(), gathered)


def load_whole(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Give a module, cut in shards or not, the weights that `whole` made."""
    parameters = dict(module.named_parameters())
    example = next((one for one in parameters.values() if isinstance(one, DTensor)), None)
    if example is not None:
        buffers = {name for name, _ in module.named_buffers()}
        state = {k: v if k in buffers else _cut_like(parameters.get(k), v, example) for k, v in state.items()}
    module.load_state_dict(state)


def _cut_like(parameter: Tensor | None, value: Tensor, example: DTensor) -> DTensor:
    """A tensor cut like its parameter; whole in every process where a module makes its parameter of several."""
    placements = parameter.placements if isinstance(parameter, DTensor) else [Replicate()]
    return distribute_tensor(value.to(example.device), example.device_mesh, placements, src_data_rank=None)


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
        load_whole(self.lightning_module, checkpoint["state_dict"])

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
    return {name: _cut_like(parameter, v, parameter) if name in fits else v for name, v in values.items()}


class Named(Protocol):
    """Anything about one example."""

    @property
    def example_id(self) -> str:
        """The example."""


T = TypeVar("T", bound=Named)


def gathered(batches: list[list[T]]) -> list[T]:
    """The predictions of all processes, in the order in which one process would make them; all must call this.

    Each was given every n-th batch, and some of the last were given twice; each gets all predictions.
    """
    shares = [batches]
    if dist.is_available() and dist.is_initialized():
        shares = [[] for _ in range(dist.get_world_size())]
        dist.all_gather_object(shares, batches)
    in_turn = chain.from_iterable(zip_longest(*shares, fillvalue=[]))
    found: dict[str, T] = {}
    for prediction in chain.from_iterable(in_turn):
        found.setdefault(prediction.example_id, prediction)
    return list(found.values())
