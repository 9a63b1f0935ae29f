"""Benchmark of attention alone: all implementations in one process, at any input length."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import ClassVar

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from mate_cli.attention.backends.sdpa import Sdpa, split_heads
from mate_cli.attention.base import AttentionBackend, AttentionPlan, Planner
from mate_cli.attention.patterns import AttentionPattern, Full, RowColumnHeads
from mate_cli.benchmark.backends import find_backends, list_backends
from mate_cli.benchmark.cases import Case
from mate_cli.benchmark.measure import BenchmarkOptions
from mate_cli.benchmark.timing import DIRECTIONS, FORWARD, NotRun, Variant, clock, time_call
from mate_cli.models.base.costs import work_flops
from mate_cli.models.layers.encoder import LayerSpec
from mate_cli.models.linformer import MixedAttention, Mixer
from mate_cli.tokenization.layout import TableBatch

DENSE, DENSE_MASK, LINFORMER = "dense", "dense_mask", "linformer"
PLAN_ROUNDS = 3
SLICE = 256
"""Number of queries per slice in `attend_by_definition`, which limits its memory."""


@dataclass(kw_only=True)
class AttentionBenchmark(BenchmarkOptions):
    """Benchmark of attention implementations (variants) on synthetic and real tables.

    Variants are the names in `conf/attention`, `dense` (PyTorch's `scaled_dot_product_attention` with full attention,
    as in TAPAS), `dense_mask` (the same function with MATE's pattern as mask) and `linformer`.
    """

    kind: ClassVar[str] = "attention"
    backends: list[str] | None
    longest: dict[str, PositiveInt]
    heads: PositiveInt
    head_size: PositiveInt
    slots: PositiveInt
    checked: NonNegativeInt

    def prepare(self, case: Case, device: torch.device) -> Mapping[str, Callable[[], Variant | NotRun]]:
        """Return a function per attention variant that prepares the variant for one batch.

        The preparation computes the attention plan of the batch. Dense attention is the first variant.

        Args:
            case: input batch.
            device: device of the measurement.

        Raises:
            ConfigError: the name of a variant is unknown.
        """
        full, mate = Full(self.heads), RowColumnHeads(self.heads)
        mixer = Mixer(case.tokens, self.slots, shared=True).to(self.device, self.torch_dtype)
        specs = {
            DENSE: LayerSpec(full, Sdpa()),
            DENSE_MASK: LayerSpec(mate, Sdpa()),
            **{name: LayerSpec(mate, backend) for name, backend in self._backends.items()},
            LINFORMER: LayerSpec(full, MixedAttention(mixer)),
        }
        generator = torch.Generator().manual_seed(0)
        values = torch.randn(
            int((case.batch.attention_mask == 1).sum()), 3, self.heads, self.head_size, generator=generator
        )
        qkv, batch = values.to(device, self.torch_dtype), case.batch.to(device)

        @cache
        def attend_exactly(pattern: AttentionPattern) -> Tensor:
            return attend_by_definition(qkv, AttentionPlan(pattern, batch))

        def prepare_variant(name: str, spec: LayerSpec) -> Variant | NotRun:
            if case.tokens > self.longest.get(name, case.tokens):
                return NotRun(f"more than {self.longest[name]:,} tokens take too much memory")
            spec.backend.supports(spec.pattern)
            planned_batch, ms = time_plan(Planner((spec.prepared,)).for_device(device.type), case.batch)
            inputs = qkv.detach().requires_grad_()
            forward = partial(spec.backend.forward, inputs, AttentionPlan(spec.pattern, planned_batch.to(device)))
            count = spec.backend.count_operations(AttentionPlan(spec.pattern, case.batch))
            gflop = {d: work_flops(count, self.head_size, backward=d != FORWARD) / 1e9 for d in DIRECTIONS}
            is_checked = case.tokens <= self.checked and name != LINFORMER
            exact = partial(attend_exactly, spec.pattern) if is_checked else None
            return Variant(forward, [inputs, *(mixer.parameters() if name == LINFORMER else ())], gflop, ms, exact)

        selected_specs = {name: spec for name, spec in specs.items() if self.backends is None or name in self.backends}
        return {name: partial(prepare_variant, name, spec) for name, spec in selected_specs.items()}

    @cached_property
    def _backends(self) -> dict[str, AttentionBackend]:
        """The attention backends to measure, by their option name in `conf/attention`.

        By default all backends are selected except sdpa, which is measured as `dense_mask`.
        """
        if self.backends is None:
            return find_backends([name for name in list_backends() if name != "sdpa"])
        return find_backends([name for name in self.backends if name not in (DENSE, DENSE_MASK, LINFORMER)])


def time_plan(planner: Planner, batch: TableBatch) -> tuple[TableBatch, float]:
    """Return a batch with its attention plan, and the median planning time on the CPU.

    An attention plan contains the masks and index tables that attention needs for a batch.

    Returns:
        The batch with its attention plan, and the median planning time in milliseconds.
    """
    spent, read_clock = [], clock(torch.device("cpu"))
    for _ in range(PLAN_ROUNDS):
        planned: list[TableBatch] = []
        spent.append(time_call(lambda: planned.append(planner(batch)), read_clock)[0])  # noqa: B023 - called at once
    return planned[0], 1000 * statistics.median(spent)


@torch.no_grad()
def attend_by_definition(qkv: Tensor, plan: AttentionPlan) -> Tensor:
    """Compute exact attention in float64, as reference for the numerical errors of variants.

    `qkv` has the shape [P, 3, N, H]. To save memory, the queries are processed in slices.

    The result is the reference for the numerical errors of all variants.
    """
    masks = plan.pattern.group_masks(plan.batch).unbind(1)
    heads = [split_heads(x, plan.pattern) for x in plan.heads(qkv.double())]
    outputs = []
    for mask, query, key, value in zip(masks, *heads, strict=True):
        slices = zip(torch.split(query, SLICE, dim=2), torch.split(mask, SLICE, dim=1), strict=True)
        outputs.append(torch.cat([_attend(q, key, value, query_mask) for q, query_mask in slices], dim=2))
    return plan.pack_heads(torch.cat(outputs, dim=1))


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Compute the attention of queries [B, n, t, H] to T keys. `mask` is boolean [B, t, T]."""
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    return scores.masked_fill_(~mask[:, None], float("-inf")).softmax(-1) @ value
