"""The backend that should be fastest for each batch, by counted pairs."""

from __future__ import annotations

from collections import Counter

from torch import Tensor

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.backends.segments import Segments
from mate_cli.attention.base import AttentionBackend, AttentionPattern, SegmentedPattern
from mate_cli.attention.patterns.full import Full
from mate_cli.attention.plan import AttentionPlan
from mate_cli.attention.segment_tasks import segment_tasks

TOKEN_COST = 105
"""What gathering costs segments per token, in (query, key) pairs of the dense kernel; measured on a CPU."""

GPU_TOKENS = 2048
"""Below this many tokens a GPU attends densely; a guess, not measured."""


class Auto:
    """Dense attention where a batch is short or its rows and columns are long, segments elsewhere.

    Both are exact, so that the choice changes nothing but time. `chosen` counts the batches of each.
    """

    def __init__(self) -> None:
        self._backends: dict[str, AttentionBackend] = {"sdpa": Sdpa(), "segments": Segments()}
        self.chosen: Counter[str] = Counter()

    def supports(self, pattern: AttentionPattern, dropout: float = 0.0) -> None:
        """Accept every pattern."""

    def prepare(self, plan: AttentionPlan) -> None:
        """Choose, and derive what the choice will ask of the plan."""
        self._backends[self.choose(plan)].prepare(plan)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend: [P, 3, N, H] to [P, N, H]."""
        choice = self.choose(plan)
        plan.derive("counted", lambda _: self.chosen.update([choice]))
        return self._backends[choice].forward(qkv, plan, key_bias, dropout)

    def summary(self) -> str:
        """What was chosen so far, for a log."""
        counts = [f"{name} in {count:,}" for name, count in self.chosen.most_common()]
        return f"{', '.join(counts)} of {self.chosen.total():,} batches"

    def choose(self, plan: AttentionPlan) -> str:
        """The backend for this batch, `sdpa` or `segments`; decided once per batch."""
        return plan.derive("auto", _choose)


def _choose(plan: AttentionPlan) -> str:
    pattern, (examples, tokens) = plan.pattern, plan.packing.shape
    if isinstance(pattern, Full):
        return "segments"  # which is dense, but for the padding
    if not isinstance(pattern, SegmentedPattern):
        return "sdpa"
    if plan.batch.input_ids.is_cuda and tokens < GPU_TOKENS:
        return "sdpa"
    needed = segment_tasks(plan).pairs / pattern.num_heads + TOKEN_COST * sum(plan.packing.lengths)
    return "segments" if needed < examples * tokens**2 else "sdpa"
