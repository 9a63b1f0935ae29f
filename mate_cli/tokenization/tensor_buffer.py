"""Packing of all tensors in nested tuples and dataclasses into one buffer.

One buffer is cheaper than many tensors: it needs one file descriptor to be sent to another process, and one copy to
be moved to a device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import accumulate
from typing import Any

import torch

ALIGNMENT = 64
"""Alignment of every tensor in bytes, which suits all dtypes and vectorized loads of kernels."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Location, shape and dtype of one tensor in the shared byte buffer.

    Args:
        start: offset in bytes.
        shape: shape of the tensor.
        stride: strides of the contiguous tensor, in elements.
        dtype: dtype of the tensor.
    """

    start: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class TensorBuffer:
    """A nested value whose tensors are stored in one buffer.

    Args:
        data: bytes of all tensors, UInt8 [bytes].
        content: the value with each tensor replaced by a `Slot`.
    """

    data: torch.Tensor
    content: Any

    def unpack(self) -> Any:  # noqa: ANN401 - any nesting
        """Restore the nested value that `pack_tensors` stored. Its tensors are views of the buffer, without copies."""
        views_by_dtype: dict[torch.dtype, torch.Tensor] = {}

        def view(slot: Slot) -> torch.Tensor:
            if slot.dtype not in views_by_dtype:
                views_by_dtype[slot.dtype] = self.data.view(slot.dtype)
            typed_buffer = views_by_dtype[slot.dtype]
            return typed_buffer.as_strided(slot.shape, slot.stride, slot.start // typed_buffer.element_size())

        return _map(self.content, Slot, view)


def map_tensors(value: Any, function: Callable[[torch.Tensor], Any]) -> Any:  # noqa: ANN401 - any nesting
    """Apply a function to every tensor in nested tuples, mappings and dataclasses, and keep the nesting."""
    return _map(value, torch.Tensor, function)


def pack_tensors(value: Any) -> TensorBuffer:  # noqa: ANN401 - any nesting
    """Pack all tensors of a nested value into one buffer.

    Tensors that already share one buffer are not copied.
    """
    leaves: list[torch.Tensor] = []
    map_tensors(value, leaves.append)
    tensors = list({id(tensor): tensor for tensor in leaves}.values())
    sizes = [-(-tensor.nbytes // ALIGNMENT) * ALIGNMENT for tensor in tensors]
    shared_buffer = _shared_buffer(tensors, sum(sizes))
    if shared_buffer is not None:
        starts = [int(tensor.storage_offset()) * tensor.element_size() for tensor in tensors]
        data = shared_buffer
    else:
        starts = list(accumulate(sizes, initial=0))[:-1]
        data = torch.empty(sum(sizes), dtype=torch.uint8, device=tensors[0].device if tensors else None)
        for tensor, start in zip(tensors, starts, strict=True):
            data[start : start + tensor.nbytes].view(tensor.dtype).copy_(tensor.reshape(-1))
    slots = {
        id(tensor): Slot(start, tuple(tensor.shape), tensor.contiguous().stride(), tensor.dtype)
        for tensor, start in zip(tensors, starts, strict=True)
    }
    return TensorBuffer(data, map_tensors(value, lambda tensor: slots[id(tensor)]))


def move_tensors(value: Any, move: Callable[[torch.Tensor], torch.Tensor]) -> Any:  # noqa: ANN401 - any nesting
    """Move all tensors of a nested value in one operation on their packed buffer, and return the new value.

    Args:
        value: nested tuples and dataclasses with tensors.
        move: function that moves the buffer, such as `Tensor.cuda` or `Tensor.pin_memory`.
    """
    buffer = pack_tensors(value)
    return TensorBuffer(move(buffer.data), buffer.content).unpack()


def on_device(value: Any, device: torch.device) -> Any:  # noqa: ANN401 - any nesting
    """Move the tensors of a nested value to a device. Return `value` itself if none must be moved."""
    tensors: list[torch.Tensor] = []
    map_tensors(value, tensors.append)
    is_on_device = all(tensor.device == device for tensor in tensors)
    return value if is_on_device else move_tensors(value, lambda data: data.to(device))


def _shared_buffer(tensors: Sequence[torch.Tensor], size: int) -> torch.Tensor | None:
    """Find the buffer that all tensors are views of.

    Return None if they share no buffer, or if it exceeds `size` bytes.
    """
    if not tensors:
        return None
    storage = tensors[0].untyped_storage()
    share_storage = all(
        tensor.untyped_storage()._cdata == storage._cdata and tensor.is_contiguous() for tensor in tensors
    )
    if not share_storage or storage.nbytes() > size:
        return None
    return torch.empty(0, dtype=torch.uint8, device=tensors[0].device).set_(storage)


def _map(value: Any, kind: type, function: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    """Apply a function to all items of the type `kind` in nested tuples, mappings and dataclasses."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, tuple):
        return tuple(_map(item, kind, function) for item in value)
    if isinstance(value, Mapping):
        return {name: _map(item, kind, function) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _map(getattr(value, f.name), kind, function) for f in fields(value)})
    return value
