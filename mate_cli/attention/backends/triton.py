"""Exact attention by segments on a GPU, with Triton kernels.

The kernels gather rows by index, without padding or copies.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor

from mate_cli.attention.backends.triton_tiles import Tiling, cut_tiles, is_interpreted
from mate_cli.attention.base import AttentionPlan, SegmentBackend, attention_dtype
from mate_cli.attention.patterns import AttentionPattern
from mate_cli.attention.segment_tasks import segment_tasks
from mate_cli.errors import ConfigError

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class Triton(SegmentBackend):
    """Attention within table rows or columns by Triton kernels on the GPU.

    Each program computes one tile of queries of one attention head. Deterministic, without atomics.

    Args:
        tile: number of queries of a program, a power of two, at least 16.
        step: maximum number of keys that a program loads at a time, a power of two, at least 16.

    Raises:
        ConfigError: a size is not a power of two or is less than 16.
    """

    def __init__(self, tile: int = 64, step: int = 64) -> None:
        self.tile, self.step = tile, step
        if any(size < 16 or size & (size - 1) for size in (tile, step)):
            problem = f"tile {tile} with step {step} is not supported"
            raise ConfigError(problem, where="attention", remedy="Use powers of two, at least 16")

    def supports(self, pattern: AttentionPattern, dropout: float = 0.0) -> None:
        """Raise `ConfigError` if the pattern has no segments, or if this machine cannot run Triton."""
        super().supports(pattern, dropout)
        self.check_machine("cuda")

    def check_machine(self, device: str) -> None:
        """Raise `ConfigError` without a CUDA device of compute capability 8.0 or later and an installed Triton.

        Under TRITON_INTERPRET=1, only the installation is checked.
        """
        hint = "Use attention=auto or attention=segments"
        if not is_interpreted() and (device != "cuda" or not torch.cuda.is_available()):
            raise ConfigError("triton needs a CUDA device", where="attention", remedy=hint)
        if not is_interpreted() and torch.cuda.get_device_capability() < (8, 0):
            raise ConfigError("triton needs a GPU of compute capability 8.0 or later", where="attention", remedy=hint)
        if find_spec("triton") is None:
            raise ConfigError("Triton is not installed", where="attention", remedy="Install it: pip install triton")

    def prepare(self, plan: AttentionPlan) -> None:
        """Split the tasks of a batch into tiles of queries, and cache the tiles in its plan."""
        self._tiling(plan)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Map queries, keys and values of P tokens, [P, 3, N, H], to attention outputs [P, N, H].

        See `Attention.forward`.

        Raises:
            ConfigError: the tensors are not on a GPU or have an unsupported dtype, such as float64.
        """
        from mate_cli.attention.backends.triton_op import segment_attention

        dtype = attention_dtype(qkv)
        if dtype not in DTYPES or not (qkv.is_cuda or is_interpreted()):
            raise ConfigError(f"triton cannot compute {dtype} on {qkv.device}", where="attention", remedy="Use sdpa")
        tiling = self._tiling(plan)
        bias = None if key_bias is None else key_bias.float()
        # Sample on the device: the GPU need not wait, and a CUDA graph samples a new seed at every replay.
        # torch.manual_seed and activation checkpointing control the generator of the device.
        seed = torch.randint(2**31 - 1, (1,), device=qkv.device) if dropout else None
        return segment_attention(qkv.to(dtype), bias, seed, tiling, (self.tile, self.step), dropout)

    def _tiling(self, plan: AttentionPlan) -> Tiling:
        return plan.derive(("triton", self.tile), lambda plan: cut_tiles(segment_tasks(plan), self.tile))
