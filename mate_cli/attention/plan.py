"""A pattern on one batch: what backends derive from it, derived once and shared by all layers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from mate_cli.attention.base import AttentionPattern

if TYPE_CHECKING:
    from torch import Tensor

    from mate_cli.tokenization.layout import TableBatch

Derived = TypeVar("Derived")


class AttentionPlan:
    """What every head may see in one batch; it holds no parameters and is cheap until asked.

    Args:
        pattern: the definition.
        batch: the tokens it is applied to.
    """

    def __init__(self, pattern: AttentionPattern, batch: TableBatch) -> None:
        self.pattern, self.batch = pattern, batch
        self._derived: dict[Hashable, object] = {}

    @cached_property
    def mask(self) -> Tensor:
        """The pattern's mask, Bool [B, N or 1, T, T]."""
        return self.pattern.mask(self.batch)

    def derive(self, name: Hashable, build: Callable[[AttentionPlan], Derived]) -> Derived:
        """What `build` makes of this plan, kept under `name` (unique to the backend and its options)."""
        if name not in self._derived:
            self._derived[name] = build(self)
        return self._derived[name]  # type: ignore[return-value]
