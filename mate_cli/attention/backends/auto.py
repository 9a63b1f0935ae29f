"""Automatic selection of the fastest backend for each batch, by counted query-key pairs."""

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from mate_cli.attention.backends.native import Native, native_kernels
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.backends.segments import Segments
from mate_cli.attention.backends.triton import Triton
from mate_cli.attention.base import AttentionBackend, AttentionPlan, Work
from mate_cli.attention.patterns import Full, SegmentedPattern
from mate_cli.attention.segment_tasks import segment_tasks
from mate_cli.errors import ConfigError

TOKEN_COST = {"native": 30, "segments": 105}
"""Cost of gathering a token, in query-key pairs of the dense kernel, by backend. Measured on a CPU."""

GPU_TOKENS = 2048
"""Minimum padded length for attention by segments on a GPU without Triton. An estimate, not measured."""


class Auto(AttentionBackend):
    """Attention backend that selects dense attention or attention by segments per batch.

    Dense attention is selected for batches that are short or have long rows and columns. Attention by segments is
    `native` on a CPU with a compiler, `triton` on a GPU that supports it, else `segments`. All backends are exact, so
    the selection affects only the speed. `batches` counts the batches of each backend.
    """

    leaves_choice: ClassVar[bool] = True

    def __init__(self) -> None:
        self._backends: dict[str, AttentionBackend] = {
            "sdpa": Sdpa(),
            "segments": Segments(),
            "native": Native(),
            "triton": Triton(),
        }
        self._by_device: dict[str, str] = {}
        self.batches: Counter[str] = Counter()

    def check_machine(self, device: str) -> None:
        """Select and cache the segment backend that is fastest on a device type.

        Data workers use the cached selection. Only the process that uses a GPU can query the GPU.
        """
        self._by_device[device] = self._segment_backend(device)

    def prepare(self, plan: AttentionPlan) -> None:
        """Select the backend of a batch, and compute the index tables of this backend."""
        self._backends[self.choose(plan)].prepare(plan)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend with the selected backend: projections [P, 3, N, H] of P tokens to outputs [P, N, H]."""
        choice = self.choose(plan)
        plan.derive("counted", lambda _: self.batches.update([choice]))
        return self._backends[choice].forward(qkv, plan, key_bias, dropout)

    def count_operations(self, plan: AttentionPlan) -> Work:
        """Count the operations of the attention backend that is selected for a batch."""
        return self._backends[self.choose(plan)].count_operations(plan)

    def describe_usage(self) -> Mapping[str, str]:
        """Return how many batches each backend computed so far, as text."""
        counts = [f"{name} in {count:,}" for name, count in self.batches.most_common()]
        return {"attention": f"{', '.join(counts)} of {self.batches.total():,} batches"}

    def counts(self) -> dict[str, int]:
        """Return the number of batches that each backend computed."""
        return dict(self.batches)

    def load_counts(self, counts: Mapping[str, int]) -> None:
        """Restore the number of batches of each backend. Unknown names are ignored."""
        self.batches = Counter({name: int(counts[name]) for name in self._backends if name in counts})

    def choose(self, plan: AttentionPlan) -> str:
        """Select the backend for a batch, and return its name in `conf/attention`.

        The name is cached per batch and device type.
        """
        return plan.derive(("auto", plan.device), self._fastest)

    def _fastest(self, plan: AttentionPlan) -> str:
        """Choose the backend that is estimated to be the fastest exact one for this batch.

        The estimate depends on the number of query-key pairs.
        """
        pattern, (examples, tokens) = plan.pattern, plan.packing.shape
        if isinstance(pattern, Full):
            # For the full pattern, `segments` is dense attention without the padding.
            return "segments"
        if not isinstance(pattern, SegmentedPattern):
            return "sdpa"
        if plan.device not in self._by_device:
            self.check_machine(plan.device)
        name = self._by_device[plan.device]
        if name == "triton":
            return name
        if plan.device != "cpu" and tokens < GPU_TOKENS:
            return "sdpa"
        segment_cost = segment_tasks(plan).pairs / pattern.num_heads + TOKEN_COST[name] * sum(plan.packing.lengths)
        return name if segment_cost < examples * tokens**2 else "sdpa"

    def _segment_backend(self, device: str) -> str:
        if device == "cpu":
            return "segments" if native_kernels() is None else "native"
        try:
            self._backends["triton"].check_machine(device)
        except ConfigError:
            return "segments"
        return "triton"


def with_fallback(backend: AttentionBackend, device: str) -> AttentionBackend:
    """Return `backend` if it can run on this device type of this machine, else `Auto`.

    Weights do not depend on the attention backend, so a finished run can be used on other machines.
    """
    try:
        backend.check_machine(device)
    except ConfigError:
        return Auto()
    return backend
