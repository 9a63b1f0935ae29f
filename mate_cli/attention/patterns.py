"""Attention patterns: boolean masks that define which token may see which, apart from how it is computed.

A pattern of your own is a class like these, in any module.
"""

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


class Full(AttentionPattern):
    """Every token sees every token that is not padding, as in BERT and TAPAS."""

    def segment_ids(self, batch: TableBatch) -> Tensor:
        """Return one segment, in which all are global: Int64 [1, B, T]."""
        return torch.zeros_like(batch.row_ids)[None]

    def global_tokens(self, batch: TableBatch) -> Tensor:
        """Return all real tokens, Bool [B, T]."""
        return batch.attention_mask == 1

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Return Bool [B, 1, T, T], the same row for every query (a view that takes no memory)."""
        real = batch.attention_mask == 1
        return real[:, None, None, :].expand(-1, 1, real.shape[1], -1)


class SameRowOrColumn(AttentionPattern):
    """A token sees its row and its column; global tokens see and are seen.

    Header cells are row 0, and so see one another; a body cell sees the header of its own column only.

    Source: google-research/tapas, `attention_utils`, mode `same_colum_or_row`; MATE paper, section 5.1.
    """

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Return Bool [B, 1, T, T]; padding sees all that is real, so that no query is left without a key."""
        real, is_global = batch.attention_mask == 1, global_tokens(batch)
        sees_all = (is_global | ~real)[:, :, None]
        mask = equal_ids(batch.row_ids) | equal_ids(batch.column_ids) | sees_all | is_global[:, None, :]
        return (mask & real[:, None, :])[:, None]


def equal_ids(ids: Tensor) -> Tensor:
    """Compare ids in pairs: [B, T] to Bool [B, T, T]."""
    return ids[:, :, None] == ids[:, None, :]


class RowColumnHeads(AttentionPattern):
    """Row heads, which come first, see the same row; column heads the same column; global tokens see and are seen.

    Args:
        row_head_ratio: the share of row heads; their number is rounded down.

    Source: Eisenschlos et al., "MATE: Multi-view Attention for Table Transformer Efficiency", section 3;
        google-research/tapas, `attention_utils`, mode `headwise_same_colum_or_row`.
    """

    def __init__(self, num_heads: int, row_head_ratio: float = 0.5) -> None:
        self.num_row_heads = int(num_heads * row_head_ratio)
        super().__init__(*filter(None, (self.num_row_heads, num_heads - self.num_row_heads)))

    def group_labels(self) -> list[str]:
        """Return row heads and column heads, where there are both."""
        if len(self.head_groups) == 1:
            return super().group_labels()
        named = zip(self.head_groups, ("row", "column"), strict=True)
        return [f"{heads} {kind} head{'s' * (heads > 1)}" for heads, kind in named]

    def segment_ids(self, batch: TableBatch) -> Tensor:
        """Return row ids for the row heads, column ids for the column heads: Int64 [groups, B, T]."""
        views = [batch.row_ids] * (self.num_row_heads > 0) + [batch.column_ids] * (self.num_row_heads < self.num_heads)
        return torch.stack(views)

    def global_tokens(self, batch: TableBatch) -> Tensor:
        """Return the question and the special tokens, Bool [B, T]."""
        return global_tokens(batch)

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Return Bool [B, groups, T, T]; padding sees all that is real, so that no query is left without a key."""
        ids = self.segment_ids(batch).transpose(0, 1)
        real, is_global = batch.attention_mask == 1, global_tokens(batch)
        same_segment = ids[..., :, None] == ids[..., None, :]
        sees_all = (is_global | ~real)[:, None, :, None]
        return (same_segment | sees_all | is_global[:, None, None, :]) & real[:, None, None, :]


class SatLayer(AttentionPattern):
    """A token sees its row, the header row and the global tokens, and its column too where `columns` says so.

    Unlike in `SameRowOrColumn` a body cell sees the headers of other columns. The header sees only what all see
    (and its columns); global tokens see everything.

    Args:
        columns: True for the upper layers, False for the lower ones.

    Source: Zhang et al., "Table Fact Verification with Structure-Aware Transformer", EMNLP 2020; zhhongzhi/sat4table.
    """

    def __init__(self, num_heads: int, *, columns: bool) -> None:
        super().__init__(num_heads)
        self.columns = columns

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Return Bool [B, 1, T, T]; row 0 is the question and the header, so padding (row 0 too) sees these."""
        real, is_global = batch.attention_mask == 1, global_tokens(batch)
        mask = equal_ids(batch.row_ids) | is_global[:, :, None] | (is_global | (batch.row_ids == 0))[:, None, :]
        if self.columns:
            mask |= equal_ids(batch.column_ids)
        return (mask & real[:, None, :])[:, None]


class Window(AttentionPattern):
    """A token sees those at most so many places away that are not padding.

    Args:
        radius: places to either side.

    Source: Ainslie et al., "ETC: Encoding Long and Structured Inputs in Transformers", EMNLP 2020, section 3.
    """

    def __init__(self, num_heads: int, radius: int) -> None:
        super().__init__(num_heads)
        self.radius = radius

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Return Bool [B, 1, T, T]; padding may be left without a key."""
        real = batch.attention_mask == 1
        place = torch.arange(real.shape[1], device=real.device)
        return ((place - place[:, None]).abs() <= self.radius) & real[:, None, None, :]


class CandidateBlocks(AttentionPattern):
    """A token sees the tokens of its own candidate, whose number is its row id; no token is global."""

    def segment_ids(self, batch: TableBatch) -> Tensor:
        """Return the number of the candidate, Int64 [1, B, T]."""
        return batch.row_ids[None]

    def global_tokens(self, batch: TableBatch) -> Tensor:
        """Return none: Bool [B, T]."""
        return torch.zeros_like(batch.row_ids, dtype=torch.bool)

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Return Bool [B, 1, T, T]; padding sees all that is real, so that no query is left without a key."""
        real = batch.attention_mask == 1
        return ((equal_ids(batch.row_ids) | ~real[:, :, None]) & real[:, None, :])[:, None]


class PreviousSegment(AttentionPattern):
    """A token sees the tokens of its own segment, whose number is its row id, and of the segment before.

    Source: Dai et al., "Transformer-XL: Attentive Language Models beyond a Fixed-Length Context", ACL 2019,
        section 3.2.
    """

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Return Bool [B, 1, T, T]; padding sees all that is real, so that no query is left without a key."""
        real = batch.attention_mask == 1
        back = batch.row_ids[:, :, None] - batch.row_ids[:, None, :]
        return (((back == 0) | (back == 1) | ~real[:, :, None]) & real[:, None, :])[:, None]
