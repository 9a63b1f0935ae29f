"""Streams without padding: only real tokens go through the layers."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class Packing:
    """Where the P real tokens of a batch [B, T] lie, example after example.

    Args:
        shape: B and T.
        lengths: real tokens of every example.
        places: of every real token in the flat batch, Int64 [P]; None when there is no padding.
    """

    shape: tuple[int, int]
    lengths: tuple[int, ...]
    places: Tensor | None

    def pack(self, padded: Tensor) -> Tensor:
        """Leave out the padding: [B, T, ...] to [P, ...]; a view when there is none."""
        flat = padded.flatten(0, 1)
        return flat if self.places is None else _Pack.apply(flat, self.places)  # type: ignore[no-untyped-call]

    def unpack(self, packed: Tensor) -> Tensor:
        """Put the padding back, with zeros: [P, ...] to [B, T, ...]; a view when there is none."""
        if self.places is not None:
            packed = _spread(packed, self.places, self.shape[0] * self.shape[1])
        return packed.view(*self.shape, *packed.shape[1:])


class _Pack(torch.autograd.Function):
    """Chosen rows; unlike with `index_select`, the gradient is written, not added."""

    @staticmethod
    def forward(ctx: Any, flat: Tensor, places: Tensor) -> Tensor:  # noqa: ANN401 - torch's own context
        ctx.places, ctx.rows = places, len(flat)
        return flat.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's own context
        return _spread(gradient, ctx.places, ctx.rows), None


def _spread(packed: Tensor, places: Tensor, rows: int) -> Tensor:
    return packed.new_zeros(rows, *packed.shape[1:]).index_copy(0, places, packed)


def find_packing(batch: TableBatch) -> Packing:
    """The packing of a batch."""
    real = batch.attention_mask == 1
    lengths = tuple(real.sum(1).tolist())
    places = None if sum(lengths) == real.numel() else real.flatten().nonzero().squeeze(1)
    return Packing((real.shape[0], real.shape[1]), lengths, places)
