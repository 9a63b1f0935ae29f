"""Attention patterns: definitions of which token may see which, apart from how it is computed."""

from abc import ABC, abstractmethod
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from mate_cli.errors import ConfigError
from mate_cli.tokenization.layout import TableBatch


class AttentionPattern(ABC):
    """A definition of which token may see which: a boolean mask per group of heads, and nothing about speed.

    Args:
        head_groups: how many heads share each mask, in the order of the heads; each has one at least.

    Raises:
        ConfigError: a group has no heads.
    """

    def __init__(self, *head_groups: int) -> None:
        if min(head_groups, default=0) < 1:
            problem = f"{type(self).__name__} has a group without heads: {', '.join(map(str, head_groups)) or 'none'}"
            raise ConfigError(problem, where="model", remedy="Leave the group out, or use a model.size with more heads")
        self.head_groups = head_groups

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
        """Return what the heads of each group are called where people look at masks."""
        if len(self.head_groups) == 1:
            return ["all heads"]
        return [f"{heads} heads ({place})" for place, heads in enumerate(self.head_groups, 1)]

    @abstractmethod
    def group_masks(self, batch: TableBatch) -> Tensor:
        """Return the definition: Bool [B, groups, T, T], True where query i (first T) may see key j (second T)."""

    def checked_masks(self, batch: TableBatch) -> Tensor:
        """Return `group_masks`, as many as there are groups of heads.

        Raises:
            ConfigError: there are more or fewer.
        """
        masks = self.group_masks(batch)
        if masks.shape[1] != len(self.head_groups):
            problem = f"{type(self).__name__} has {len(self.head_groups)} groups of heads and {masks.shape[1]} masks"
            raise ConfigError(problem, where="model", remedy="Return one mask for each number of heads, in their order")
        return masks

    def mask(self, batch: TableBatch) -> Tensor:
        """Return the definition for every head: Bool [B, N, T, T], or [B, 1, T, T] where all heads are alike."""
        masks = self.checked_masks(batch)
        if masks.shape[1] == 1:
            return masks
        groups = zip(torch.split(masks, 1, dim=1), self.head_groups, strict=True)
        return torch.cat([mask.expand(-1, heads, -1, -1) for mask, heads in groups], dim=1)


@runtime_checkable
class SegmentedPattern(Protocol):
    """A pattern in which tokens see the global tokens and those of the same segment (a row, or a column)."""

    head_groups: tuple[int, ...]

    def segment_ids(self, batch: TableBatch) -> Tensor:
        """Return the segment of every token, for each group of heads: Int64 [groups, B, T]."""

    def global_tokens(self, batch: TableBatch) -> Tensor:
        """Return which tokens see and are seen by all: Bool [B, T]."""


def global_tokens(batch: TableBatch) -> Tensor:
    """Find tokens that see and are seen by all: segment 0 and real (never the header row), Bool [B, T].

    Source: google-research/tapas, `attention_utils`; MATE paper, section 3.
    """
    return (batch.segment_ids == 0) & (batch.attention_mask == 1)


def all_pairs(pattern: AttentionPattern, batch: TableBatch) -> int:
    """Count pairs of dense attention, padding included, over all heads."""
    examples, tokens = batch.input_ids.shape
    return pattern.num_heads * examples * tokens**2


def needed_pairs(pattern: AttentionPattern, batch: TableBatch) -> int:
    """Count pairs of real tokens that the pattern lets through, over all heads: no exact method can do with fewer."""
    if not isinstance(pattern, SegmentedPattern):
        real = batch.attention_mask == 1
        masks = pattern.checked_masks(batch) & real[:, None, :, None]
        heads = torch.tensor(pattern.head_groups, device=masks.device)
        return int((masks.sum((0, 2, 3)) * heads).sum())
    groups = zip(pattern.head_groups, pattern.segment_ids(batch), strict=True)
    real, is_global = batch.attention_mask == 1, pattern.global_tokens(batch)
    return sum(
        heads * _pairs_of(*example) for heads, ids in groups for example in zip(ids, real, is_global, strict=True)
    )


def _pairs_of(ids: Tensor, real: Tensor, is_global: Tensor) -> int:
    """Return one example and head: globals see and are seen by all, the others see their segment."""
    total, seen_by_all = int(real.sum()), int((is_global & real).sum())
    segments = torch.unique(ids[real & ~is_global], return_counts=True)[1]
    return seen_by_all * (2 * total - seen_by_all) + int((segments**2).sum())
