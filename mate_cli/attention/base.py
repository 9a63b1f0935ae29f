"""Computation of patterns: the plan of a batch, the interface of all attention, and of the backends of any network.

A plan is a pattern on one batch, without its padding: what backends derive is derived once and shared by all layers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor

from mate_cli.attention.patterns import AttentionPattern, SegmentedPattern, needed_pairs
from mate_cli.errors import ConfigError
from mate_cli.tokenization.layout import TableBatch
from mate_cli.tokenization.tensor_buffer import on_device

Derived = TypeVar("Derived")


@dataclass(frozen=True)
class Packing:
    """The places of the P real tokens of a batch [B, T], example after example.

    Args:
        shape: B and T.
        lengths: real tokens of every example.
        places: of every real token in the flat batch, Int64 [P]; None when there is no padding.
    """

    shape: tuple[int, int]
    lengths: tuple[int, ...]
    places: Tensor | None

    def pack(self, padded: Tensor) -> Tensor:
        """Leave out the padding: [B, T, ...] to [P, ...]; a view when there is none."""
        flat = padded.flatten(0, 1)
        return flat if self.places is None else _Pack.apply(flat, self.places)  # type: ignore[no-untyped-call]

    def unpack(self, packed: Tensor) -> Tensor:
        """Put the padding back, with zeros: [P, ...] to [B, T, ...]; a view when there is none."""
        if self.places is not None:
            packed = _spread(packed, self.places, self.shape[0] * self.shape[1])
        return packed.view(*self.shape, *packed.shape[1:])


class _Pack(torch.autograd.Function):
    """Chosen rows; unlike with `index_select`, the gradient is written, not added."""

    @staticmethod
    def forward(ctx: Any, flat: Tensor, places: Tensor) -> Tensor:  # noqa: ANN401 - torch's own context
        ctx.places, ctx.rows = places, len(flat)
        return flat.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's own context
        return _spread(gradient, ctx.places, ctx.rows), None


def _spread(packed: Tensor, places: Tensor, rows: int) -> Tensor:
    return packed.new_zeros(rows, *packed.shape[1:]).index_copy(0, places, packed)


def find_packing(batch: TableBatch) -> Packing:
    """Return the packing of a batch."""
    real = batch.attention_mask == 1
    lengths = tuple(real.sum(1).tolist())
    places = None if sum(lengths) == real.numel() else real.flatten().nonzero().squeeze(1)
    return Packing((real.shape[0], real.shape[1]), lengths, places)


class AttentionPlan:
    """The attention plan of one batch: what every head may see; it holds no parameters and computes masks on demand.

    Args:
        batch: the tokens it is applied to; what was prepared with it is not derived again.
        derived: where to keep what is derived, when other plans of the batch keep theirs there too.
        device: the kind of device that will compute it, where that is not the batch's own.
    """

    def __init__(
        self,
        pattern: AttentionPattern,
        batch: TableBatch,
        derived: dict[Hashable, object] | None = None,
        device: str | None = None,
    ) -> None:
        self.pattern, self.batch = pattern, batch
        self.device = device or batch.input_ids.device.type
        self.derived = dict(batch.prepared) if derived is None else derived
        self.own: dict[Hashable, object] = {}  # by name alone: each layer asks, and patterns are slow to hash
        self.packing: Packing = self.derive("packing", lambda plan: find_packing(plan.batch))

    @property
    def mask(self) -> Tensor:
        """The pattern's mask, Bool [B, N or 1, T, T]."""
        return self.derive("mask", lambda plan: plan.pattern.mask(plan.batch))

    def derive(self, name: Hashable, build: Callable[[AttentionPlan], Derived]) -> Derived:
        """Return what `build` makes of this plan, kept under `name` (unique to the backend and its options)."""
        if name not in self.own:
            key = (self.pattern, name)
            if key not in self.derived:
                self.derived[key] = on_device(build(self), self.batch.input_ids.device)
            self.own[name] = self.derived[key]
        return self.own[name]  # type: ignore[return-value]

    def heads(self, qkv: Tensor) -> tuple[Tensor, ...]:
        """Return query, key and value with padding, each [B, N, T, H], of the packed projections [P, 3, N, H]."""
        return self.packing.unpack(qkv).permute(2, 0, 3, 1, 4).unbind()

    def pack_heads(self, output: Tensor) -> Tensor:
        """Return the attended values without padding: [B, N, T, H] to [P, N, H]."""
        return self.packing.pack(output.transpose(1, 2))


class Plans:
    """The plans of all layers of a network on one batch; layers of equal patterns have the same one."""

    def __init__(self, patterns: Iterable[AttentionPattern], batch: TableBatch, device: str | None = None) -> None:
        self.derived: dict[Hashable, object] = dict(batch.prepared)
        self._batch = batch
        chosen = dict.fromkeys({id(pattern): pattern for pattern in patterns}.values())  # hashed once, not per layer
        self._plans = {pattern: AttentionPlan(pattern, batch, self.derived, device) for pattern in chosen}

    def __getitem__(self, pattern: AttentionPattern) -> AttentionPlan:
        return self._plans[pattern]

    @property
    def packing(self) -> Packing:
        """The places of the real tokens of the batch."""
        plan = next(iter(self._plans.values()), None)
        return find_packing(self._batch) if plan is None else plan.packing


class Work(NamedTuple):
    """The operations of one layer on one batch besides its dense layers on tokens.

    Args:
        pairs: of queries and keys, over all heads.
        mixed: pairs of tokens and slots into which a dense layer mixes keys, and then values, over all heads.
        memory: states beside those of tokens, which go through the dense layers too.
    """

    pairs: int
    mixed: int = 0
    memory: int = 0


class Attention(ABC):
    """The attention of a layer; it may have weights, and then it is part of one network."""

    among_tokens: ClassVar[bool] = True
    """True if tokens attend to tokens by queries and keys alone, as in `Eager`: to no slots, by no relations."""

    takes_key_bias: ClassVar[bool] = True
    """True if single keys can have weights."""

    def supports(self, pattern: AttentionPattern, dropout: float = 0.0) -> None:  # noqa: B027 - most need not refuse
        """Accept the pattern, and the share of attention weights to be dropped in training.

        Raises:
            ConfigError: it cannot be computed this way.
        """

    def work(self, plan: AttentionPlan) -> Work:
        """Return what it computes on a batch, counted: the needed pairs, unless it cannot do with these."""
        return Work(needed_pairs(plan.pattern, plan.batch))

    def value_tables(self) -> tuple[Tensor, ...]:
        """Return weights of which rows are added to values [rows, H], such as those of relations; none mostly."""
        return ()

    @abstractmethod
    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend among the P real tokens of a batch.

        Args:
            qkv: query, key and value of every token, [P, 3, N, H].
            plan: the pattern on this batch, shared by all layers that have it.
            key_bias: added to the scaled scores of every key, [P].
            dropout: the probability of dropping an attention weight.

        Returns:
            The attended values [P, N, H].
        """


class AttentionBackend(Attention):
    """A way to compute patterns, without weights: any network can be given it, and processes that make batches too."""

    exact: ClassVar[bool] = True
    """True if it equals the others wherever `supports` lets it pass."""

    leaves_choice: ClassVar[bool] = False
    """True if it asks for no way in particular, so that a network with attention of its own may pass it over."""

    def check_machine(self, device: str) -> None:
        """Accept a kind of device of this machine, as PyTorch calls it; also looks up what `prepare` will ask of it.

        Raises:
            ConfigError: it cannot run there.
        """

    def prepare(self, plan: AttentionPlan) -> None:
        """Derive what `forward` will ask of the plan; runs where batches are made, on the CPU."""

    def facts(self) -> Mapping[str, str]:
        """Return what a record should say of its work so far, in words."""
        return {}

    def counts(self) -> dict[str, int]:
        """Return what `facts` tell, for a run that is resumed to count on from."""
        return {}

    def count_on(self, counts: Mapping[str, int]) -> None:
        """Go on from `counts`."""


class SegmentBackend(AttentionBackend):
    """A way to compute patterns that are made of segments, and no others."""

    def supports(self, pattern: AttentionPattern, dropout: float = 0.0) -> None:
        """Accept patterns made of segments.

        Raises:
            ConfigError: the pattern has none, or the machine has not what this needs.
        """
        if not isinstance(pattern, SegmentedPattern):
            name = f"{type(self).__name__.lower()} cannot compute {type(pattern).__name__}"
            problem = f"{name}, whose heads attend to several segments"
            raise ConfigError(problem, where="attention", remedy="Use attention=sdpa or attention=auto")


@dataclass(frozen=True)
class Planner:
    """Derives what attention will ask of a batch ahead of time, where batches are made.

    Args:
        layers: the patterns of a network, each with what will compute it; None for what stays with its weights.
        device: the kind of device that will compute it, as PyTorch calls it.
    """

    layers: tuple[tuple[AttentionPattern, AttentionBackend | None], ...]
    device: str = "cpu"

    def on(self, device: str) -> Planner:
        """Return the same for another kind of device, which this process looks at, as those that make batches cannot.

        Raises:
            ConfigError: a backend cannot run there.
        """
        for _, backend in self.layers:
            if backend is not None:
                backend.check_machine(device)
        return replace(self, device=device)

    def __call__(self, batch: TableBatch) -> TableBatch:
        """Return the batch with its plans prepared, to be pinned and moved with it."""
        plans = Plans((pattern for pattern, _ in self.layers), batch, self.device)
        for pattern, backend in self.layers:
            if backend is not None:
                backend.prepare(plans[pattern])
        return replace(batch, prepared=plans.derived)


def attention_dtype(projections: Tensor) -> torch.dtype:
    """Return the type in which attention is computed: that of what it is computed from, or autocast's."""
    device = projections.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else projections.dtype
