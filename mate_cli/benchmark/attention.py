"""Benchmark of attention alone: all implementations in one process, at any input length."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from mate_cli.attention.backends.sdpa import Sdpa, split_heads
from mate_cli.attention.base import AttentionBackend, AttentionPlan, Planner
from mate_cli.attention.patterns import AttentionPattern, Full, RowColumnHeads
from mate_cli.benchmark.backends import find_backends, list_backends
from mate_cli.benchmark.cases import Case, draw_cases, real_lengths
from mate_cli.benchmark.measure import DIRECTIONS, BenchmarkOptions
from mate_cli.benchmark.timing import (
    Figures,
    NotRun,
    Pace,
    Timing,
    Variant,
    attempt,
    clock,
    measure_variants,
    name_figures,
    time_call,
    warm_up,
)
from mate_cli.models.base.costs import work_flops
from mate_cli.models.layers.encoder import LayerSpec
from mate_cli.models.linformer import MixedAttention, Mixer
from mate_cli.tokenization.layout import TableBatch

DENSE, DENSE_MASK, LINFORMER = "dense", "dense_mask", "linformer"
PLAN_ROUNDS = 3
SLICE = 256
"""Number of queries per slice in `attend_by_definition`, which limits its memory."""
REHEARSED = (64, 512)
"""Numbers of tokens of the synthetic tables that warm-up calls use."""


class PreparedVariant(NamedTuple):
    """An attention layer with its precomputed attention plan (masks and index tables) for one batch."""

    attention: LayerSpec
    plan: AttentionPlan

    @property
    def parameters(self) -> list[Tensor]:
        """The trainable parameters of the attention layer, empty for all layers except Linformer."""
        mixer = getattr(self.attention.backend, "mixer", None)
        return list(mixer.parameters()) if mixer is not None else []


@dataclass(kw_only=True)
class AttentionBenchmark(BenchmarkOptions):
    """Benchmark of attention implementations (variants) on synthetic and real tables.

    Variants are the names in `conf/attention`, `dense` (PyTorch's `scaled_dot_product_attention` with full attention,
    as in TAPAS), `dense_mask` (the same function with MATE's pattern as mask) and `linformer`.
    """

    backends: list[str] | None
    longest: dict[str, PositiveInt]
    heads: PositiveInt
    head_size: PositiveInt
    slots: PositiveInt
    checked: NonNegativeInt

    def variants(self, tokens: int) -> dict[str, LayerSpec]:
        """Build the selected attention implementations for inputs of `tokens` tokens, dense first.

        Raises:
            ConfigError: the name of a variant is unknown.
        """
        full, mate = Full(self.heads), RowColumnHeads(self.heads)
        mixer = Mixer(tokens, self.slots, shared=True).to(self.device, self.torch_dtype)
        specs = {
            DENSE: LayerSpec(full, Sdpa()),
            DENSE_MASK: LayerSpec(mate, Sdpa()),
            **{name: LayerSpec(mate, backend) for name, backend in self._backends.items()},
            LINFORMER: LayerSpec(full, MixedAttention(mixer)),
        }
        return {name: spec for name, spec in specs.items() if self.backends is None or name in self.backends}

    @cached_property
    def _backends(self) -> dict[str, AttentionBackend]:
        """The selected attention backends of `conf/attention`, by option name.

        By default all backends are selected except sdpa, which is measured as `dense_mask`.
        """
        if self.backends is None:
            return find_backends([name for name in list_backends() if name != "sdpa"])
        return find_backends([name for name in self.backends if name not in (DENSE, DENSE_MASK, LINFORMER)])

    def rehearse(self, device: torch.device) -> None:
        """Call every implementation on small tables, so that compilation is not timed later."""
        for case in draw_cases(["square"], REHEARSED, [1]):
            layers, qkv = self._prepared(case, device)[1], self._projections(case.tokens, device)
            for variant in layers.values():
                warm_up(partial(attend_and_back, variant, qkv), clock(device), device)

    def measure(self, case: Case, pace: Pace) -> Figures:
        """Measure all implementations on one input batch: times, memory, operations and errors."""
        results, layers = self._prepared(case, pace.device)
        qkv = self._projections(sum(real_lengths(case.batch)), pace.device)
        ran: set[str] = set()
        for direction, backward in DIRECTIONS.items():
            calls = {name: self._work(variant, case.batch, qkv, backward=backward) for name, variant in layers.items()}
            timings = measure_variants(calls, pace)
            ran |= {name for name, timing in timings.items() if isinstance(timing, Timing)}
            prefix = f"attention/{{}}/{case.name}/{direction}"
            results |= name_figures(timings, calls, prefix.format)
        if case.tokens <= self.checked:
            errors = max_errors({name: layers[name] for name in layers if name in ran and name != LINFORMER}, qkv)
            for name, error in errors.items():
                if isinstance(error, NotRun):
                    results[f"errors/{name}/{case.name}/not_run"] = error.not_run
                else:
                    results[f"attention/{name}/{case.name}/forward/max_error"] = error
        return results

    def _prepared(self, case: Case, device: torch.device) -> tuple[Figures, dict[str, PreparedVariant]]:
        """Compute the attention plan of every implementation for one input batch.

        Returns:
            Measurements by name (planning time in ms of each variant, or the reason why a variant cannot run), and the
                prepared variants by name.
        """
        results: Figures = {}
        layers: dict[str, PreparedVariant] = {}
        outcome: tuple[PreparedVariant, float] | NotRun
        for name, attention in self.variants(case.tokens).items():
            prefix = f"attention/{name}/{case.name}"
            if case.tokens > self.longest.get(name, case.tokens):
                outcome = NotRun(f"more than {self.longest[name]:,} tokens take too much memory")
            else:
                outcome = attempt(partial(prepare_variant, attention, case.batch, device))
            if isinstance(outcome, NotRun):
                results |= {f"{prefix}/{direction}/not_run": outcome.not_run for direction in DIRECTIONS}
            else:
                layers[name], results[f"{prefix}/plan/ms"] = outcome
        return results, layers

    def _projections(self, tokens: int, device: torch.device) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        values = torch.randn(tokens, 3, self.heads, self.head_size, generator=generator)
        return values.to(device, self.torch_dtype)

    def _work(self, variant: PreparedVariant, batch: TableBatch, qkv: Tensor, *, backward: bool) -> Variant:
        call = partial(attend_and_back if backward else forward_pass, variant, qkv)
        count = variant.attention.backend.count_operations(AttentionPlan(variant.attention.pattern, batch))
        return Variant(call, work_flops(count, self.head_size, backward=backward) / 1e9)


@torch.no_grad()
def forward_pass(ready: PreparedVariant, qkv: Tensor) -> Tensor:
    """Compute the attention output [P, N, H] of `qkv` [P, 3, N, H] for P tokens, without gradients."""
    return ready.attention.backend.forward(qkv, ready.plan)


def attend_and_back(ready: PreparedVariant, qkv: Tensor) -> tuple[Tensor, ...]:
    """Run attention forward, then backward with the output as the gradient of the output.

    Returns:
        The gradients of query, key and value, and of the parameters of the layer.
    """
    inputs = qkv.detach().requires_grad_()
    output = ready.attention.backend.forward(inputs, ready.plan)
    return torch.autograd.grad(output, [inputs, *ready.parameters], output.detach())


def prepare_variant(attention: LayerSpec, batch: TableBatch, device: torch.device) -> tuple[PreparedVariant, float]:
    """Check that a backend supports its attention pattern, and compute the attention plan of a batch.

    Args:
        attention: pattern and backend of the variant.
        batch: batch on the CPU.
        device: device of the measurement.

    Returns:
        The prepared variant, and the planning time in milliseconds.

    Raises:
        ConfigError: the backend does not support the pattern.
    """
    attention.backend.supports(attention.pattern)
    planned_batch, ms = time_plan(Planner((attention.prepared,)).for_device(device.type), batch)
    return PreparedVariant(attention, AttentionPlan(attention.pattern, planned_batch.to(device))), ms


def time_plan(planner: Planner, batch: TableBatch) -> tuple[TableBatch, float]:
    """Return a batch with its attention plan, and the median time to compute the plan on the CPU.

    An attention plan contains the masks and index tables that attention needs for a batch.

    Returns:
        The batch with its attention plan, and the median planning time in milliseconds.
    """
    timer, spent, planned = clock(torch.device("cpu")), [], batch

    def plan() -> None:
        nonlocal planned
        planned = planner(batch)

    for _ in range(PLAN_ROUNDS):
        spent.append(time_call(plan, timer)[0])
    return planned, 1000 * statistics.median(spent)


def max_errors(ready: Mapping[str, PreparedVariant], qkv: Tensor) -> dict[str, float | NotRun]:
    """Return the largest absolute error of each variant, compared with exact attention in float64.

    Args:
        ready: prepared variants by name.
        qkv: query, key and value of all tokens, [P, 3, N, H].

    Returns:
        The maximum absolute error of each variant, or the reason why the comparison failed.
    """
    exact: dict[AttentionPattern, Tensor] = {}

    def largest(variant: PreparedVariant) -> float:
        pattern = variant.attention.pattern
        if pattern not in exact:
            exact[pattern] = attend_by_definition(qkv, variant.plan)
        return float((forward_pass(variant, qkv).double() - exact[pattern]).abs().max())

    return {name: attempt(partial(largest, variant)) for name, variant in ready.items()}


@torch.no_grad()
def attend_by_definition(qkv: Tensor, plan: AttentionPlan) -> Tensor:
    """Compute exact attention in float64 for `qkv` [P, 3, N, H], one slice of queries at a time.

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
    """Compute the attention of queries [B, n, t, H] to T keys, with the boolean mask [B, t, T]."""
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    return scores.masked_fill_(~mask[:, None], float("-inf")).softmax(-1) @ value
