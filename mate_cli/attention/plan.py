"""Patterns on one batch: what backends derive from them, derived once and shared by all layers of a pattern."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from typing import TypeVar

from torch import Tensor

from mate_cli.attention.packing import Packing, find_packing
from mate_cli.attention.pattern import AttentionPattern
from mate_cli.tokenization.layout import TableBatch, map_tensors

Derived = TypeVar("Derived")


class AttentionPlan:
    """What every head may see in one batch; it holds no parameters and is cheap until asked.

    Args:
        batch: the tokens it is applied to; what was prepared with it is not derived again.
        derived: where to keep what is derived, when other plans of the batch keep theirs there too.
    """

    def __init__(
        self, pattern: AttentionPattern, batch: TableBatch, derived: dict[Hashable, object] | None = None
    ) -> None:
        self.pattern, self.batch = pattern, batch
        self.derived = dict(batch.prepared) if derived is None else derived
        self.packing: Packing = self.derive("packing", lambda plan: find_packing(plan.batch))

    @cached_property
    def mask(self) -> Tensor:
        """The pattern's mask, Bool [B, N or 1, T, T]."""
        return self.pattern.mask(self.batch)

    def derive(self, name: Hashable, build: Callable[[AttentionPlan], Derived]) -> Derived:
        """What `build` makes of this plan, kept under `name` (unique to the backend and its options)."""
        key = (self.pattern, name)
        if key not in self.derived:
            device = self.batch.input_ids.device
            self.derived[key] = map_tensors(build(self), lambda tensor: tensor.to(device))
        return self.derived[key]  # type: ignore[return-value]

    def heads(self, qkv: Tensor) -> tuple[Tensor, ...]:
        """Query, key and value with padding, each [B, N, T, H], of the packed projections [P, 3, N, H]."""
        return self.packing.unpack(qkv).permute(2, 0, 3, 1, 4).unbind()

    def pack_heads(self, output: Tensor) -> Tensor:
        """The attended values without padding: [B, N, T, H] to [P, N, H]."""
        return self.packing.pack(output.transpose(1, 2))


class Plans:
    """The plans of all layers of a network on one batch; layers of equal patterns have the same one."""

    def __init__(self, patterns: Iterable[AttentionPattern], batch: TableBatch) -> None:
        self.derived: dict[Hashable, object] = dict(batch.prepared)
        self._plans = {pattern: AttentionPlan(pattern, batch, self.derived) for pattern in dict.fromkeys(patterns)}

    def __getitem__(self, pattern: AttentionPattern) -> AttentionPlan:
        return self._plans[pattern]

    @property
    def packing(self) -> Packing:
        """Where the real tokens of the batch lie."""
        return next(iter(self._plans.values())).packing
