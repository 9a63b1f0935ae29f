"""Exact attention by segments on a CPU, compiled: every row and column is gathered into cache and attended there."""

import torch
from torch import Tensor

from mate_cli.attention.backends.native_build import native_kernels, say_if_missing
from mate_cli.attention.backends.segments import Segments
from mate_cli.attention.base import AttentionPlan, SegmentBackend, attention_dtype
from mate_cli.attention.patterns import AttentionPattern
from mate_cli.attention.segment_tasks import segment_tasks

LISTS = ("query_start", "queries", "global_start", "globals", "local_start", "locals")
"""Lists of `SegmentTasks`, in the order in which the kernels read them."""


class Native(SegmentBackend):
    """C++ kernels without padding, compiled on first use; `segments` computes where there is no compiler or a GPU.

    They attend in single precision, whatever the precision of the stream. The results are the same with any number
    of threads.
    """

    def supports(self, pattern: AttentionPattern, dropout: float = 0.0) -> None:
        """Accept patterns made of segments; compiles, so that no later step waits."""
        super().supports(pattern, dropout)
        say_if_missing()

    def prepare(self, plan: AttentionPlan) -> None:
        """Find the tasks."""
        if native_kernels() is None:
            Segments().prepare(plan)
        else:
            _task_lists(plan)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend: [P, 3, N, H] to [P, N, H]."""
        if qkv.is_cuda or native_kernels() is None:
            return Segments().forward(qkv, plan, key_bias, dropout)
        from mate_cli.attention.backends.native_op import native_attention

        tasks = segment_tasks(plan)
        bias = None if key_bias is None else key_bias.float().contiguous()
        # From the generator that torch.manual_seed and activation checkpointing govern.
        seed = torch.randint(2**31 - 1, (1,)) if dropout else torch.zeros(1, dtype=torch.int64)
        arguments = (bias, seed, tasks.rows, _task_lists(plan), tasks.blocks, dropout)
        return native_attention(qkv.float().contiguous(), *arguments)[0].to(attention_dtype(qkv))


def _task_lists(plan: AttentionPlan) -> Tensor:
    """Return the six lists of the tasks, Int32 [6, tasks]."""
    tasks = segment_tasks(plan)
    return plan.derive("native", lambda _: torch.stack([getattr(tasks, name) for name in LISTS]))
