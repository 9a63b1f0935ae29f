"""The tensors of a nested value in one buffer: one file descriptor between processes, and one copy to a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

ALIGNMENT = 64
"""Every tensor begins at a multiple of so many bytes, so that any type can be read there, and kernels load in fours."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a tensor in a buffer.

    Args:
        start: in bytes.
    """

    start: int
    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class TensorBuffer:
    """A nested value whose tensors lie in one buffer.

    Args:
        data: their bytes, UInt8 [bytes].
        content: the value with a `Slot` in place of each tensor.
    """

    data: torch.Tensor
    content: Any

    def unpack(self) -> Any:  # noqa: ANN401 - any nesting
        """Return the value, whose tensors are views of the buffer."""
        typed: dict[torch.dtype, torch.Tensor] = {}

        def view(slot: Slot) -> torch.Tensor:
            if slot.dtype not in typed:
                typed[slot.dtype] = self.data.view(slot.dtype)
            strides = tuple(accumulate((max(size, 1) for size in slot.shape[:0:-1]), mul, initial=1))[::-1]
            whole = typed[slot.dtype]
            return whole.as_strided(slot.shape, strides[: len(slot.shape)], slot.start // whole.element_size())

        return _map(self.content, lambda value: isinstance(value, Slot), view)


def map_tensors(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:  # noqa: ANN401 - any nesting
    """Return the same nesting of tuples and dataclasses with every tensor changed."""
    return _map(value, lambda item: hasattr(item, "device"), change)


def pack_tensors(value: Any) -> TensorBuffer:  # noqa: ANN401 - any nesting
    """Put all tensors of a nested value into one buffer; those that share one already are not copied."""
    import torch

    leaves: list[torch.Tensor] = []
    map_tensors(value, leaves.append)
    tensors = list({id(tensor): tensor for tensor in leaves}.values())
    sizes = [-(-tensor.nbytes // ALIGNMENT) * ALIGNMENT for tensor in tensors]
    shared = _shared_buffer(tensors, sum(sizes))
    if shared is not None:
        starts = [int(tensor.storage_offset()) * tensor.element_size() for tensor in tensors]
        data = shared
    else:
        starts = list(accumulate(sizes, initial=0))[:-1]
        data = torch.empty(sum(sizes), dtype=torch.uint8, device=tensors[0].device if tensors else None)
        for tensor, start in zip(tensors, starts, strict=True):
            data[start : start + tensor.nbytes].view(tensor.dtype).copy_(tensor.reshape(-1))
    places = {id(tensor): start for tensor, start in zip(tensors, starts, strict=True)}
    content = map_tensors(value, lambda tensor: Slot(places[id(tensor)], tuple(tensor.shape), tensor.dtype))
    return TensorBuffer(data, content)


def move_tensors(value: Any, move: Callable[[torch.Tensor], torch.Tensor]) -> Any:  # noqa: ANN401 - any nesting
    """Return the same nesting with all tensors moved at once, in one buffer."""
    packed = pack_tensors(value)
    return TensorBuffer(move(packed.data), packed.content).unpack()


def on_device(value: Any, device: torch.device) -> Any:  # noqa: ANN401 - any nesting
    """Return the same nesting with all tensors on a device; itself where they are there."""
    tensors: list[torch.Tensor] = []
    map_tensors(value, tensors.append)
    there = all(tensor.device == device for tensor in tensors)
    return value if there else move_tensors(value, lambda data: data.to(device))


def _shared_buffer(tensors: Sequence[torch.Tensor], size: int) -> torch.Tensor | None:
    """Return the buffer in which all tensors lie and hardly anything else, if there is one."""
    import torch

    if not tensors:
        return None
    storage = tensors[0].untyped_storage()
    alike = all(tensor.untyped_storage()._cdata == storage._cdata and tensor.is_contiguous() for tensor in tensors)
    if not alike or storage.nbytes() > size:
        return None
    return torch.empty(0, dtype=torch.uint8, device=tensors[0].device).set_(storage)


def _map(value: Any, chosen: Callable[[Any], bool], change: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    """Return the same nesting of tuples and dataclasses with every chosen item changed."""
    if chosen(value):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_map(item, chosen, change) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _map(getattr(value, f.name), chosen, change) for f in fields(value)})
    return value
