"""What may be seen (patterns) apart from how it is computed (backends): the two interfaces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from mate_cli.attention.plan import AttentionPlan
    from mate_cli.tokenization.layout import TableBatch


class AttentionPattern(ABC):
    """Which token may see which: a boolean mask per group of heads, and nothing about speed.

    Args:
        head_groups: how many heads share each mask, in the order of the heads.
    """

    def __init__(self, *head_groups: int) -> None:
        self.head_groups = tuple(heads for heads in head_groups if heads)

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.head_groups}"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), self.head_groups))

    @property
    def num_heads(self) -> int:
        """The number of heads N."""
        return sum(self.head_groups)

    def group_labels(self) -> list[str]:
        """What the heads of each group are called where people look at masks."""
        if len(self.head_groups) == 1:
            return ["all heads"]
        return [f"{heads} heads ({place})" for place, heads in enumerate(self.head_groups, 1)]

    @abstractmethod
    def group_masks(self, batch: TableBatch) -> Tensor:
        """The definition: Bool [B, groups, T, T], True where query i (first T) may see key j (second T)."""

    def mask(self, batch: TableBatch) -> Tensor:
        """The definition for every head: Bool [B, N, T, T], or [B, 1, T, T] where all heads are alike."""
        masks = self.group_masks(batch)
        if masks.shape[1] == 1:
            return masks
        heads = torch.tensor(self.head_groups, device=masks.device)
        return masks.repeat_interleave(heads, dim=1)


@runtime_checkable
class SegmentedPattern(Protocol):
    """A pattern in which tokens see the global tokens and those of the same segment (a row, or a column)."""

    head_groups: tuple[int, ...]

    def segment_ids(self, batch: TableBatch) -> Tensor:
        """The segment of every token, for each group of heads: Int64 [groups, B, T]."""

    def global_tokens(self, batch: TableBatch) -> Tensor:
        """Which tokens see and are seen by all: Bool [B, T]."""


class Work(NamedTuple):
    """What is computed in one layer on one batch besides its dense layers on tokens.

    Args:
        pairs: of queries and keys, over all heads.
        mixed: pairs of tokens and slots into which a dense layer mixes keys, and then values, over all heads.
        memory: states beside those of tokens, which go through the dense layers too.
    """

    pairs: int
    mixed: int = 0
    memory: int = 0


class Attention(ABC):
    """How a layer computes its pattern; it may have weights, and then it is part of one network."""

    among_tokens: ClassVar[bool] = True
    """Whether tokens attend to tokens by queries and keys alone, as in `Eager`: to no slots, by no relations."""

    def supports(self, pattern: AttentionPattern, dropout: float = 0.0) -> None:  # noqa: B027 - most need not refuse
        """Accept the pattern, and the share of attention weights to be dropped in training.

        Raises:
            ConfigError: it cannot be computed this way.
        """

    @abstractmethod
    def work(self, plan: AttentionPlan) -> Work:
        """What it computes on a batch, counted."""

    def value_tables(self) -> tuple[Tensor, ...]:
        """Weights of its own of which rows are added to values [rows, H], such as those of relations; none mostly."""
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
    """Whether it equals the others wherever `supports` lets it pass."""

    leaves_choice: ClassVar[bool] = False
    """Whether it asks for no way in particular, so that a network with attention of its own may pass it over."""

    def prepare(self, plan: AttentionPlan) -> None:
        """Derive what `forward` will ask of the plan; runs where batches are made, on the CPU."""

    def facts(self) -> Mapping[str, str]:
        """What a record should say of its work so far, in words."""
        return {}

    def counts(self) -> dict[str, int]:
        """What `facts` tell, for a run that is resumed to count on from."""
        return {}

    def count_on(self, counts: Mapping[str, int]) -> None:
        """Go on from `counts`."""


def global_tokens(batch: TableBatch) -> Tensor:
    """Tokens that see and are seen by all: segment 0 and not padding (never the header row), Bool [B, T].

    Source: google-research/tapas, `attention_utils`; MATE paper, section 3.1.
    """
    return (batch.segment_ids == 0) & (batch.attention_mask == 1)
