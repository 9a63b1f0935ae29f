"""Batches inside a graph that is compiled or exported: its work may not depend on where their padding is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.base import Attention
from mate_cli.attention.pattern import AttentionPattern
from mate_cli.attention.plan import Packing
from mate_cli.tokenization.layout import TableBatch

ALL_PAIRS = (Eager, Sdpa)
"""Attention that a graph can hold: over all pairs of tokens."""


@dataclass(frozen=True)
class PaddedBatch(Packing):
    """The packing that leaves nothing out: padding is computed, and zero wherever states are unpacked.

    Args:
        real: 1 on real tokens, [B, T].
    """

    real: Tensor

    def pack(self, padded: Tensor) -> Tensor:
        """Map [B, T, ...] to [B * T, ...]."""
        return padded.flatten(0, 1)

    def unpack(self, packed: Tensor) -> Tensor:
        """Map [B * T, ...] to [B, T, ...]."""
        states = packed.view(*self.shape, *packed.shape[1:])
        return states * self.real.view(*self.shape, *(1,) * (packed.ndim - 1)).to(states.dtype)


def is_traced(backends: Iterable[Attention]) -> bool:
    """Tell whether a graph is being made of a network whose attention can be in it: over all pairs."""
    making = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]
    return making and all(isinstance(backend, ALL_PAIRS) for backend in backends)


def is_exported() -> bool:
    """Tell whether a graph is being made that is to stand alone."""
    exporting = getattr(torch.compiler, "is_exporting", None)  # since torch 2.7
    alone = exporting is not None and exporting()
    return bool(alone or torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]


def keep_padding(batch: TableBatch, patterns: Iterable[AttentionPattern]) -> TableBatch:
    """Return the batch, planned for these patterns without leaving out its padding."""
    examples, tokens = batch.input_ids.shape
    packing = PaddedBatch((examples, tokens), (examples * tokens,), None, batch.attention_mask)
    return replace(batch, prepared={(pattern, "packing"): packing for pattern in patterns})
