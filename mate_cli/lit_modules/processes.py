"""Several processes at one task: predictions brought together, and weights, cut in shards or not, made whole for files.

What is saved does not tell in how many processes, or by which strategy, it was trained. Tensors in shards are known by
what they can do, as torch takes a second to import their class.
"""

from collections.abc import Callable, Mapping
from itertools import chain, zip_longest
from typing import Any, Protocol, TypeVar

import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only


def whole(state: Any) -> Any:  # noqa: ANN401 - any nest of tensors
    """The same state with whole tensors on the CPU; every process must ask for it."""
    return tree_map_only(Tensor, lambda tensor: _gather(tensor).detach().cpu(), state)


def _gather(tensor: Tensor) -> Tensor:
    whole_tensor: Callable[[], Tensor] | None = getattr(tensor, "full_tensor", None)
    return whole_tensor() if whole_tensor else tensor


def is_cut(tensor: Tensor) -> bool:
    """Whether it is a `DTensor`, of which this process has a part."""
    return hasattr(tensor, "full_tensor")


def load_whole(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Give a module, cut in shards or not, the weights that `whole` made."""
    parameters = dict(module.named_parameters())
    example = next(filter(is_cut, parameters.values()), None)
    if example is not None:
        buffers = {name for name, _ in module.named_buffers()}
        state = {k: v if k in buffers else cut_like(parameters.get(k), v, example) for k, v in state.items()}
    module.load_state_dict(state)


def cut_like(parameter: Tensor | None, value: Tensor, example: Tensor) -> Tensor:
    """A tensor cut like its parameter; whole in every process where a module makes its parameter of several.

    Args:
        parameter: that it is the value of.
        value: the whole tensor.
        example: any parameter that is cut.
    """
    from torch.distributed.tensor import DTensor, Replicate, distribute_tensor

    assert isinstance(example, DTensor)
    placements = parameter.placements if isinstance(parameter, DTensor) else [Replicate()]
    return distribute_tensor(value.to(example.device), example.device_mesh, placements, src_data_rank=None)


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
