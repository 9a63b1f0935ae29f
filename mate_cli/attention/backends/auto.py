"""The backend that should be fastest for each batch, by counted pairs."""

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
"""Cost of gathering a token, in (query, key) pairs of the dense kernel; measured on a CPU."""

GPU_TOKENS = 2048
"""Below this many tokens a GPU without Triton attends densely; a guess, not measured."""


class Auto(AttentionBackend):
    """Dense attention where a batch is short or its rows and columns are long, segments elsewhere.

    On a CPU with a compiler that is `native`, on a GPU that can run it `triton`, else `segments`. All are exact, so
    that the choice changes nothing but time. `chosen` counts the batches of each.
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
        self.chosen: Counter[str] = Counter()

    def check_machine(self, device: str) -> None:
        """Look up what computes segments on a kind of device: GPUs can only be asked by the process that uses them."""
        self._by_device[device] = self._segment_backend(device)

    def prepare(self, plan: AttentionPlan) -> None:
        """Choose, and derive what the choice will ask of the plan."""
        self._backends[self.choose(plan)].prepare(plan)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend: [P, 3, N, H] to [P, N, H]."""
        choice = self.choose(plan)
        plan.derive("counted", lambda _: self.chosen.update([choice]))
        return self._backends[choice].forward(qkv, plan, key_bias, dropout)

    def work(self, plan: AttentionPlan) -> Work:
        """Return the work of the backend for this batch."""
        return self._backends[self.choose(plan)].work(plan)

    def facts(self) -> Mapping[str, str]:
        """Return what was chosen so far."""
        counts = [f"{name} in {count:,}" for name, count in self.chosen.most_common()]
        return {"attention": f"{', '.join(counts)} of {self.chosen.total():,} batches"}

    def counts(self) -> dict[str, int]:
        """Return the batches of each backend."""
        return dict(self.chosen)

    def count_on(self, counts: Mapping[str, int]) -> None:
        """Go on from the batches of each backend."""
        self.chosen = Counter({name: int(counts[name]) for name in self._backends if name in counts})

    def choose(self, plan: AttentionPlan) -> str:
        """Return the backend for this batch, by its name in `conf/attention`.

        Decided once per batch and kind of device.
        """
        return plan.derive(("auto", plan.device), self._fastest)

    def _fastest(self, plan: AttentionPlan) -> str:
        """Return the exact backend that should be fastest on this batch, by counted pairs."""
        pattern, (examples, tokens) = plan.pattern, plan.packing.shape
        if isinstance(pattern, Full):
            return "segments"  # which is dense, but for the padding
        if not isinstance(pattern, SegmentedPattern):
            return "sdpa"
        if plan.device not in self._by_device:
            self.check_machine(plan.device)
        name = self._by_device[plan.device]
        if name == "triton":
            return name
        if plan.device != "cpu" and tokens < GPU_TOKENS:
            return "sdpa"
        needed = segment_tasks(plan).pairs / pattern.num_heads + TOKEN_COST[name] * sum(plan.packing.lengths)
        return name if needed < examples * tokens**2 else "sdpa"

    def _segment_backend(self, device: str) -> str:
        if device == "cpu":
            return "segments" if native_kernels() is None else "native"
        try:
            self._backends["triton"].check_machine(device)
        except ConfigError:
            return "segments"
        return "triton"


def portable(backend: AttentionBackend, device: str) -> AttentionBackend:
    """Return the backend, or `Auto` where this machine lacks what it needs on a kind of device.

    Weights do not depend on how attention is computed, so that a finished run moves between machines.
    """
    try:
        backend.check_machine(device)
    except ConfigError:
        return Auto()
    return backend
