"""Exact attention by segments on a GPU: Triton kernels that gather rows by index; nothing is padded or copied."""

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
    """One program per tile of queries and head, which gathers its keys by index; deterministic, without atomics.

    Args:
        tile: queries that a program takes.
        step: keys that it takes at a time, at most.

    Raises:
        ConfigError: a size is not a power of two, or under 16.
    """

    def __init__(self, tile: int = 64, step: int = 64) -> None:
        self.tile, self.step = tile, step
        if any(size < 16 or size & (size - 1) for size in (tile, step)):
            problem = f"tile {tile} with step {step} is not supported"
            raise ConfigError(problem, where="attention", remedy="Use powers of two, at least 16")

    def supports(self, pattern: AttentionPattern, dropout: float = 0.0) -> None:
        """Accept patterns made of segments, where Triton can run."""
        super().supports(pattern, dropout)
        self.check_machine("cuda")

    def check_machine(self, device: str) -> None:
        """Accept CUDA devices of compute capability 8.0 or later, where Triton is installed."""
        remedy = "Use attention=auto or attention=segments"
        if not is_interpreted() and (device != "cuda" or not torch.cuda.is_available()):
            raise ConfigError("triton needs a CUDA device", where="attention", remedy=remedy)
        if not is_interpreted() and torch.cuda.get_device_capability() < (8, 0):
            raise ConfigError("triton needs a GPU of compute capability 8.0 or later", where="attention", remedy=remedy)
        if find_spec("triton") is None:
            raise ConfigError("Triton is not installed", where="attention", remedy="Install it: pip install triton")

    def prepare(self, plan: AttentionPlan) -> None:
        """Cut the tasks into tiles."""
        self._tiling(plan)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend: [P, 3, N, H] to [P, N, H].

        Raises:
            ConfigError: the tensors are not on a GPU, or in double precision.
        """
        from mate_cli.attention.backends.triton_op import segment_attention

        dtype = attention_dtype(qkv)
        if dtype not in DTYPES or not (qkv.is_cuda or is_interpreted()):
            raise ConfigError(f"triton cannot compute {dtype} on {qkv.device}", where="attention", remedy="Use sdpa")
        tiling = self._tiling(plan)
        bias = None if key_bias is None else key_bias.float()
        # On the device: no GPU waits, a CUDA graph draws anew, and torch.manual_seed and checkpointing govern it.
        seed = torch.randint(2**31 - 1, (1,), device=qkv.device) if dropout else None
        return segment_attention(qkv.to(dtype), bias, seed, tiling, (self.tile, self.step), dropout)

    def _tiling(self, plan: AttentionPlan) -> Tiling:
        return plan.derive(("triton", self.tile), lambda plan: cut_tiles(segment_tasks(plan), self.tile))
