"""Computation of patterns: the interface of all attention, and of the backends that any network can be given."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from mate_cli.attention.pattern import AttentionPattern, SegmentedPattern, needed_pairs
from mate_cli.attention.plan import AttentionPlan, Plans
from mate_cli.errors import ConfigError
from mate_cli.tokenization.layout import TableBatch


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

    def on(self, device: str) -> "Planner":
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
