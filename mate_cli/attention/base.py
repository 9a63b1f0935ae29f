"""Interfaces `Attention` and `AttentionBackend`, and the attention plan of a batch.

A plan applies a pattern to one batch, without padding. Backends cache index tables and masks in the plan, and all
layers with the same pattern share that cache.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor

from mate_cli.attention.patterns import AttentionPattern, SegmentedPattern, needed_pairs
from mate_cli.errors import ConfigError
from mate_cli.tokenization.layout import TableBatch
from mate_cli.tokenization.packing import BatchPlan
from mate_cli.tokenization.tensor_buffer import on_device

Value = TypeVar("Value")


class AttentionPlan:
    """The attention plan of one batch: which tokens every head may attend to.

    A plan has no parameters. Masks and the index tables of backends are computed on demand and cached.

    Args:
        pattern: attention pattern to apply.
        batch: tokens to which the pattern is applied. Results of data workers in `batch.plan` are reused.
        device: type of the device that will compute the attention, such as "cuda". None: the device of the batch.

    Attributes:
        packing: positions of the real tokens.
        derived: results by name, see `derive`.
    """

    def __init__(self, pattern: AttentionPattern, batch: TableBatch, device: str | None = None) -> None:
        self.pattern, self.batch, self.packing = pattern, batch, batch.packing
        self.device = device or batch.input_ids.device.type
        # A copy, because a batch does not change.
        self.derived: dict[Hashable, object] = {} if batch.plan is None else {**batch.plan.derived.get(pattern, {})}

    @property
    def mask(self) -> Tensor:
        """The mask of the pattern, Bool [B, N, T, T], or [B, 1, T, T] if all heads share one mask."""
        return self.derive("mask", lambda plan: plan.pattern.mask(plan.batch))

    def derive(self, name: Hashable, build: Callable[[AttentionPlan], Value]) -> Value:
        """Compute a value from this plan by `build`, once for all layers with the same pattern.

        Tensors in the value are moved to the device of the batch.

        Args:
            name: cache key. It must be unique to the backend and its options.
            build: function that computes the value from this plan on a cache miss.
        """
        if name not in self.derived:
            value, device = build(self), self.batch.input_ids.device
            self.derived[name] = value if device.type == "cpu" else on_device(value, device)
        return self.derived[name]  # type: ignore[return-value]

    def heads(self, qkv: Tensor) -> tuple[Tensor, ...]:
        """Unpack projections [P, 3, N, H] into padded query, key and value, each [B, N, T, H]."""
        return self.packing.unpack(qkv).permute(2, 0, 3, 1, 4).unbind()

    def pack_heads(self, output: Tensor) -> Tensor:
        """Remove the padding of attended values: [B, N, T, H] to [P, N, H]."""
        return self.packing.pack(output.transpose(1, 2))


Plans = Mapping[AttentionPattern, AttentionPlan]
"""The attention plans of the layers of a network on one batch, by pattern."""


def plan_layers(patterns: Iterable[AttentionPattern], batch: TableBatch, device: str | None = None) -> Plans:
    """Create one attention plan for each distinct pattern, shared by all layers with the pattern.

    Args:
        patterns: attention patterns of the layers of a network.
        batch: tokens to which the patterns are applied.
        device: type of the device that will compute the attention. None: the device of the batch.
    """
    # Deduplicate by id first, so that a pattern is hashed once and not once per layer.
    unique_patterns = {id(pattern): pattern for pattern in patterns}.values()
    return {pattern: AttentionPlan(pattern, batch, device) for pattern in unique_patterns}


class Work(NamedTuple):
    """Size of the computations of one layer on one batch, to estimate its FLOPs.

    The dense layers on tokens are excluded.

    Args:
        pairs: number of query-key pairs, summed over all heads.
        mixed: number of (token, slot) pairs of a dense layer that mixes keys, and then values, of all tokens into
            slots, as Linformer does. Summed over all heads.
        memory: number of hidden states that are not tokens but also pass through the dense layers.
    """

    pairs: int
    mixed: int = 0
    memory: int = 0


class Attention(ABC):
    """Base class of the computation of attention in one transformer layer.

    A subclass with weights belongs to a single network.
    """

    among_tokens: ClassVar[bool] = True
    """True if attention weights depend on queries and keys only, as in `Eager`, without slots or relations."""

    takes_key_bias: ClassVar[bool] = True
    """True if `forward` accepts a `key_bias`, which weights single keys."""

    def supports(self, pattern: AttentionPattern, dropout: float = 0.0) -> None:  # noqa: B027 - most need not refuse
        """Raise `ConfigError` if this attention cannot compute an attention pattern.

        Args:
            pattern: attention pattern of a layer.
            dropout: dropout probability of attention weights in training.

        Raises:
            ConfigError: this attention cannot compute the pattern with this dropout.
        """

    def count_operations(self, plan: AttentionPlan) -> Work:
        """Count the operations of this attention on a batch, to estimate its cost.

        By default, these are the query-key pairs that the pattern allows, which is the minimum.
        """
        return Work(needed_pairs(plan.pattern, plan.batch))

    def value_tables(self) -> tuple[Tensor, ...]:
        """Return learned vectors that this attention adds to values, each table [rows, H].

        DT-Fixup scales these vectors when it initializes added layers. Empty by default.
        """
        return ()

    @abstractmethod
    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Compute attention among the P tokens of a batch that are not padding.

        Args:
            qkv: query, key and value vectors of every token, [P, 3, N, H].
            plan: attention plan of this batch, shared by all layers with the same pattern.
            key_bias: bias added to the scaled logits of every key, [P]. None: no bias.
            dropout: dropout probability of attention weights.

        Returns:
            Attended values [P, N, H].
        """


class AttentionBackend(Attention):
    """Base class of attention without trained weights, for any network and any data worker."""

    exact: ClassVar[bool] = True
    """True if the result equals that of `Eager` for every pattern that `supports` accepts."""

    leaves_choice: ClassVar[bool] = False
    """True if a network with a specialized attention may ignore this backend, as for `auto`."""

    def check_machine(self, device: str) -> None:
        """Raise `ConfigError` if the backend cannot run on a device type of this machine.

        Properties of the device are cached for `prepare`, which runs in data workers that cannot query a GPU.

        Args:
            device: device type as named by PyTorch, such as "cuda".

        Raises:
            ConfigError: the backend cannot run on that device type.
        """

    def prepare(self, plan: AttentionPlan) -> None:
        """Precompute and cache inputs of `forward` for a batch, such as token indices.

        Called in data workers, on the CPU, so that training steps do not wait for it. The default does nothing.
        """

    def describe_usage(self) -> Mapping[str, str]:
        """Describe how often the backend was used so far, for the record of a run. The default is empty."""
        return {}

    def counts(self) -> dict[str, int]:
        """Return the counts from which `describe_usage` is computed, to be saved in the checkpoint."""
        return {}

    def load_counts(self, counts: Mapping[str, int]) -> None:
        """Restore usage counts from a checkpoint, so that a resumed run continues to count."""


class SegmentBackend(AttentionBackend):
    """Base class of backends for patterns in which tokens attend within segments, such as rows (`SegmentedPattern`)."""

    def supports(self, pattern: AttentionPattern, dropout: float = 0.0) -> None:
        """Raise `ConfigError` if the pattern has no segments, such as rows or columns.

        Args:
            pattern: attention pattern of a layer.
            dropout: dropout probability of attention weights in training.

        Raises:
            ConfigError: the pattern has no segments, or this machine lacks a requirement of the backend.
        """
        if not isinstance(pattern, SegmentedPattern):
            name = f"{type(self).__name__.lower()} cannot compute {type(pattern).__name__}"
            problem = f"{name}, whose heads attend to several segments"
            raise ConfigError(problem, where="attention", remedy="Use attention=sdpa or attention=auto")


@dataclass(frozen=True)
class Planner:
    """Prepares the attention plans of batches ahead of time, in data workers.

    Args:
        layers: the patterns of a network with their backends. None instead of a backend for attention that has weights,
            which cannot be prepared in a data worker.
        device: type of the device that will compute the attention, as named by PyTorch.
    """

    layers: tuple[tuple[AttentionPattern, AttentionBackend | None], ...]
    device: str = "cpu"

    def for_device(self, device: str) -> Planner:
        """Return a copy of this planner for another device type, such as cuda.

        Call it in the main process: data workers cannot query devices.

        Raises:
            ConfigError: a backend cannot run on that device type.
        """
        for _, backend in self.layers:
            if backend is not None:
                backend.check_machine(device)
        return replace(self, device=device)

    def __call__(self, batch: TableBatch) -> TableBatch:
        """Return the batch with its attention plans, computed ahead of the training step.

        The plans are pinned and moved to the device together with the batch.
        """
        plans = plan_layers([pattern for pattern, _ in self.layers], batch, self.device)
        for pattern, backend in self.layers:
            if backend is not None:
                backend.prepare(plans[pattern])
        return replace(batch, plan=BatchPlan(batch.packing, {pattern: plan.derived for pattern, plan in plans.items()}))


def attention_dtype(projections: Tensor) -> torch.dtype:
    """Return the dtype of the attention: the autocast dtype if enabled, else that of the input."""
    device = projections.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else projections.dtype
