"""Patterns on one batch, without its padding: what backends derive is derived once and shared by all layers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from mate_cli.attention.pattern import AttentionPattern
from mate_cli.tokenization.layout import TableBatch
from mate_cli.tokenization.tensor_buffer import on_device

Derived = TypeVar("Derived")


@dataclass(frozen=True)
class Packing:
    """The places of the P real tokens of a batch [B, T], example after example.

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
    """Return the packing of a batch."""
    real = batch.attention_mask == 1
    lengths = tuple(real.sum(1).tolist())
    places = None if sum(lengths) == real.numel() else real.flatten().nonzero().squeeze(1)
    return Packing((real.shape[0], real.shape[1]), lengths, places)


class AttentionPlan:
    """The attention plan of one batch: what every head may see; it holds no parameters and computes masks on demand.

    Args:
        batch: the tokens it is applied to; what was prepared with it is not derived again.
        derived: where to keep what is derived, when other plans of the batch keep theirs there too.
        device: the kind of device that will compute it, where that is not the batch's own.
    """

    def __init__(
        self,
        pattern: AttentionPattern,
        batch: TableBatch,
        derived: dict[Hashable, object] | None = None,
        device: str | None = None,
    ) -> None:
        self.pattern, self.batch = pattern, batch
        self.device = device or batch.input_ids.device.type
        self.derived = dict(batch.prepared) if derived is None else derived
        self.packing: Packing = self.derive("packing", lambda plan: find_packing(plan.batch))

    @property
    def mask(self) -> Tensor:
        """The pattern's mask, Bool [B, N or 1, T, T]."""
        return self.derive("mask", lambda plan: plan.pattern.mask(plan.batch))

    def derive(self, name: Hashable, build: Callable[[AttentionPlan], Derived]) -> Derived:
        """Return what `build` makes of this plan, kept under `name` (unique to the backend and its options)."""
        key = (self.pattern, name)
        if key not in self.derived:
            self.derived[key] = on_device(build(self), self.batch.input_ids.device)
        return self.derived[key]  # type: ignore[return-value]

    def heads(self, qkv: Tensor) -> tuple[Tensor, ...]:
        """Return query, key and value with padding, each [B, N, T, H], of the packed projections [P, 3, N, H]."""
        return self.packing.unpack(qkv).permute(2, 0, 3, 1, 4).unbind()

    def pack_heads(self, output: Tensor) -> Tensor:
        """Return the attended values without padding: [B, N, T, H] to [P, N, H]."""
        return self.packing.pack(output.transpose(1, 2))


class Plans:
    """The plans of all layers of a network on one batch; layers of equal patterns have the same one."""

    def __init__(self, patterns: Iterable[AttentionPattern], batch: TableBatch, device: str | None = None) -> None:
        self.derived: dict[Hashable, object] = dict(batch.prepared)
        self._batch = batch
        chosen = dict.fromkeys(patterns)
        self._plans = {pattern: AttentionPlan(pattern, batch, self.derived, device) for pattern in chosen}

    def __getitem__(self, pattern: AttentionPattern) -> AttentionPlan:
        return self._plans[pattern]

    @property
    def packing(self) -> Packing:
        """The places of the real tokens of the batch."""
        plan = next(iter(self._plans.values()), None)
        return find_packing(self._batch) if plan is None else plan.packing
