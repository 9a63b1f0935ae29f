"""The backend that should be fastest for each batch, by counted pairs."""

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from mate_cli.attention.backends.native import Native
from mate_cli.attention.backends.native_build import native_kernels
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.backends.segments import Segments
from mate_cli.attention.base import AttentionBackend, Work
from mate_cli.attention.pattern import SegmentedPattern
from mate_cli.attention.patterns.full import Full
from mate_cli.attention.plan import AttentionPlan
from mate_cli.attention.segment_tasks import segment_tasks

TOKEN_COST = {"native": 30, "segments": 105}
"""What gathering costs per token, in (query, key) pairs of the dense kernel; measured on a CPU."""

GPU_TOKENS = 2048
"""Below this many tokens a GPU attends densely; a guess, not measured."""


class Auto(AttentionBackend):
    """Dense attention where a batch is short or its rows and columns are long, segments elsewhere.

    On a CPU with a compiler that is `native`, else `segments`. All are exact, so that the choice changes nothing but
    time. `chosen` counts the batches of each.
    """

    leaves_choice: ClassVar[bool] = True

    def __init__(self) -> None:
        self._backends: dict[str, AttentionBackend] = {"sdpa": Sdpa(), "segments": Segments(), "native": Native()}
        self._gpu = torch.cuda.is_available()
        self.chosen: Counter[str] = Counter()

    def prepare(self, plan: AttentionPlan) -> None:
        """Derive what the choice will ask of the plan; batches are expected to go to a GPU where there is one."""
        self._backends[fastest(plan, on_gpu=self._gpu)].prepare(plan)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend: [P, 3, N, H] to [P, N, H]."""
        choice = self.choose(plan)
        plan.derive("counted", lambda _: self.chosen.update([choice]))
        return self._backends[choice].forward(qkv, plan, key_bias, dropout)

    def work(self, plan: AttentionPlan) -> Work:
        """That of the backend for this batch."""
        return self._backends[self.choose(plan)].work(plan)

    def facts(self) -> Mapping[str, str]:
        """What was chosen so far."""
        counts = [f"{name} in {count:,}" for name, count in self.chosen.most_common()]
        return {"attention": f"{', '.join(counts)} of {self.chosen.total():,} batches"}

    def counts(self) -> dict[str, int]:
        """The batches of each backend."""
        return dict(self.chosen)

    def count_on(self, counts: Mapping[str, int]) -> None:
        """Go on from the batches of each backend."""
        self.chosen = Counter({name: int(counts[name]) for name in self._backends if name in counts})

    def choose(self, plan: AttentionPlan) -> str:
        """The backend for this batch, by its name in `conf/attention`; decided once per batch."""
        return plan.derive("auto", lambda plan: fastest(plan, on_gpu=plan.batch.input_ids.is_cuda))


def fastest(plan: AttentionPlan, *, on_gpu: bool) -> str:
    """The exact backend that should be fastest on this batch, by counted pairs; its name in `conf/attention`."""
    pattern, (examples, tokens) = plan.pattern, plan.packing.shape
    if isinstance(pattern, Full):
        return "segments"  # which is dense, but for the padding
    if not isinstance(pattern, SegmentedPattern) or (on_gpu and tokens < GPU_TOKENS):
        return "sdpa"
    name = "segments" if on_gpu or native_kernels() is None else "native"
    needed = segment_tasks(plan).pairs / pattern.num_heads + TOKEN_COST[name] * sum(plan.packing.lengths)
    return name if needed < examples * tokens**2 else "sdpa"
