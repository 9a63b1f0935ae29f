"""Removal of the padding of a batch, and its attention plan."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """Positions of the P real (non-padding) tokens of a batch [B, T], example after example.

    Args:
        shape: B and T.
        lengths: number of real tokens of every example.
        indices: index of every real token in the flattened batch [B * T], Int64 [P]. None if the batch has no padding.
    """

    shape: tuple[int, int]
    lengths: tuple[int, ...]
    indices: Tensor | None

    def pack(self, padded: Tensor) -> Tensor:
        """Remove the padding: [B, T, ...] to [P, ...]. Return a view if the batch has no padding."""
        flat = padded.flatten(0, 1)
        return flat if self.indices is None else _Pack.apply(flat, self.indices)  # type: ignore[no-untyped-call]

    def unpack(self, rows: Tensor) -> Tensor:
        """Restore the padding as zeros: [P, ...] to [B, T, ...].

        Return a view if the batch has no padding.
        """
        if self.indices is not None:
            rows = _spread(rows, self.indices, self.shape[0] * self.shape[1])
        return rows.view(*self.shape, *rows.shape[1:])


class _Pack(torch.autograd.Function):
    """`index_select` of distinct rows, whose backward pass writes gradients instead of accumulating them."""

    @staticmethod
    def forward(ctx: Any, flat: Tensor, indices: Tensor) -> Tensor:  # noqa: ANN401 - torch's own context
        ctx.indices, ctx.rows = indices, len(flat)
        return flat.index_select(0, indices)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's own context
        return _spread(gradient, ctx.indices, ctx.rows), None


def _spread(packed_rows: Tensor, indices: Tensor, num_rows: int) -> Tensor:
    return packed_rows.new_zeros(num_rows, *packed_rows.shape[1:]).index_copy(0, indices, packed_rows)


def find_packing(attention_mask: Tensor) -> Packing:
    """Return the positions of the real (non-padding) tokens of a batch, from its mask [B, T]."""
    is_real = attention_mask == 1
    lengths = tuple(is_real.sum(1).tolist())
    indices = None if sum(lengths) == is_real.numel() else is_real.flatten().nonzero().squeeze(1)
    return Packing((is_real.shape[0], is_real.shape[1]), lengths, indices)


@dataclass(frozen=True)
class BatchPlan:
    """Attention inputs of a batch that a data worker computes ahead of the training step.

    Args:
        packing: positions of the real tokens.
        derived: tensors, tuples and dataclasses by name, for each attention pattern. See `AttentionPlan.derive`.
    """

    packing: Packing
    derived: Mapping[Hashable, Mapping[Hashable, object]]
