"""Attention patterns: boolean masks, independent of the computation of attention.

A mask defines to which tokens a token may attend. A user-defined pattern is a subclass of `AttentionPattern` in any
module.
"""

from abc import ABC, abstractmethod
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from mate_cli.errors import ConfigError
from mate_cli.tokenization.layout import TableBatch


class AttentionPattern(ABC):
    """Base class of attention patterns: one boolean mask per group of attention heads.

    Args:
        head_groups: number of heads that share each mask, in the order of the heads, at least 1 each.

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
        """Number N of attention heads, the sum over all groups of heads."""
        return sum(self.head_groups)

    def group_labels(self) -> list[str]:
        """Return the name of each group of heads, as shown in plots of masks."""
        if len(self.head_groups) == 1:
            return ["all heads"]
        return [f"{heads} heads ({index})" for index, heads in enumerate(self.head_groups, 1)]

    @abstractmethod
    def group_masks(self, batch: TableBatch) -> Tensor:
        """Compute one mask of allowed pairs per group of attention heads, Bool [B, groups, T, T].

        Entry (i, j) is True if query i may attend to key j.
        """

    def checked_masks(self, batch: TableBatch) -> Tensor:
        """Compute `group_masks`, and check that each group of attention heads has one mask.

        Raises:
            ConfigError: the numbers differ.
        """
        masks = self.group_masks(batch)
        if masks.shape[1] != len(self.head_groups):
            problem = f"{type(self).__name__} has {len(self.head_groups)} groups of heads and {masks.shape[1]} masks"
            raise ConfigError(problem, where="model", remedy="Return one mask for each number of heads, in their order")
        return masks

    def mask(self, batch: TableBatch) -> Tensor:
        """Compute the mask of allowed pairs for each of N attention heads, Bool [B, N, T, T].

        The shape is [B, 1, T, T] if all heads share one mask.
        """
        masks = self.checked_masks(batch)
        if masks.shape[1] == 1:
            return masks
        groups = zip(torch.split(masks, 1, dim=1), self.head_groups, strict=True)
        return torch.cat([mask.expand(-1, heads, -1, -1) for mask, heads in groups], dim=1)


@runtime_checkable
class SegmentedPattern(Protocol):
    """Protocol of attention patterns in which tokens attend within segments, such as rows or columns.

    A token attends to the global tokens and to the tokens of its segment.
    """

    head_groups: tuple[int, ...]

    def segment_ids(self, batch: TableBatch) -> Tensor:
        """Return the segment id of every token, for each group of heads: Int64 [groups, B, T]."""

    def global_tokens(self, batch: TableBatch) -> Tensor:
        """Return the mask of global tokens of the pattern, such as the question, Bool [B, T].

        Global tokens attend to, and are attended to by, all tokens.
        """


def global_tokens(batch: TableBatch) -> Tensor:
    """Return the mask of global tokens: question and special tokens, not the header, Bool [B, T].

    Global tokens attend to, and are attended to by, all tokens of the example.

    Source: google-research/tapas, `attention_utils`; MATE paper, section 3.
    """
    return (batch.segment_ids == 0) & (batch.attention_mask == 1)


def all_pairs(pattern: AttentionPattern, batch: TableBatch) -> int:
    """Count all query-key pairs of a batch, over all heads and with padding.

    This is the cost of dense attention, for comparison.
    """
    examples, tokens = batch.input_ids.shape
    return pattern.num_heads * examples * tokens**2


def needed_pairs(pattern: AttentionPattern, batch: TableBatch) -> int:
    """Count the query-key pairs of real tokens that the pattern allows, over all attention heads.

    No exact backend can compute fewer pairs.
    """
    if not isinstance(pattern, SegmentedPattern):
        is_real = batch.attention_mask == 1
        masks = pattern.checked_masks(batch) & is_real[:, None, :, None]
        heads = torch.tensor(pattern.head_groups, device=masks.device)
        return int((masks.sum((0, 2, 3)) * heads).sum())
    groups = zip(pattern.head_groups, pattern.segment_ids(batch), strict=True)
    is_real, is_global = batch.attention_mask == 1, pattern.global_tokens(batch)
    return sum(
        heads * _pairs_of(*example) for heads, ids in groups for example in zip(ids, is_real, is_global, strict=True)
    )


def _pairs_of(ids: Tensor, is_real: Tensor, is_global: Tensor) -> int:
    """Count the query-key pairs of one example and head of a segmented pattern.

    Tokens that are not global attend to their segment and to the global tokens.
    """
    total, num_globals = int(is_real.sum()), int((is_global & is_real).sum())
    segment_sizes = torch.unique(ids[is_real & ~is_global], return_counts=True)[1]
    return num_globals * (2 * total - num_globals) + int((segment_sizes**2).sum())


class Full(AttentionPattern):
    """Every token attends to every token that is not padding, as in BERT and TAPAS."""

    def segment_ids(self, batch: TableBatch) -> Tensor:
        """Return zeros, Int64 [1, B, T]: all tokens are in one segment, and all are global."""
        return torch.zeros_like(batch.row_ids)[None]

    def global_tokens(self, batch: TableBatch) -> Tensor:
        """Return the mask of all real tokens, Bool [B, T]."""
        return batch.attention_mask == 1

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Compute the mask, Bool [B, 1, T, T], as an expanded view: all queries share a row."""
        is_real = batch.attention_mask == 1
        return is_real[:, None, None, :].expand(-1, 1, is_real.shape[1], -1)


class SameRowOrColumn(AttentionPattern):
    """A token attends to its row, its column and the global tokens.

    Global tokens attend to all tokens.

    Header cells form row 0, and attend to one another. A body cell attends to the header of its column only.

    Source: google-research/tapas, `attention_utils`, mode `same_colum_or_row`; MATE paper, section 5.1.
    """

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Compute the mask of allowed pairs, which all heads share, Bool [B, 1, T, T].

        Padding attends to all real tokens, so every query has a key.
        """
        is_real, is_global = batch.attention_mask == 1, global_tokens(batch)
        sees_all = (is_global | ~is_real)[:, :, None]
        mask = equal_ids(batch.row_ids) | equal_ids(batch.column_ids) | sees_all | is_global[:, None, :]
        return (mask & is_real[:, None, :])[:, None]


def equal_ids(ids: Tensor) -> Tensor:
    """Compare all pairs of ids for equality: [B, T] to Bool [B, T, T]."""
    return ids[:, :, None] == ids[:, None, :]


class RowColumnHeads(AttentionPattern):
    """Row heads attend to the same row, and column heads to the same column.

    Row heads come first. All heads also attend to the global tokens, and global tokens attend to all tokens.

    Args:
        num_heads: number N of attention heads.
        row_head_ratio: fraction of row heads, from 0 to 1. Their number is rounded down.

    Source: Eisenschlos et al., "MATE: Multi-view Attention for Table Transformer Efficiency", section 3;
        google-research/tapas, `attention_utils`, mode `headwise_same_colum_or_row`.
    """

    def __init__(self, num_heads: int, row_head_ratio: float = 0.5) -> None:
        self.num_row_heads = int(num_heads * row_head_ratio)
        super().__init__(*filter(None, (self.num_row_heads, num_heads - self.num_row_heads)))

    def group_labels(self) -> list[str]:
        """Return names such as `6 row heads`, or `all heads` for a single group."""
        if len(self.head_groups) == 1:
            return super().group_labels()
        groups = zip(self.head_groups, ("row", "column"), strict=True)
        return [f"{heads} {name} head{'s' * (heads > 1)}" for heads, name in groups]

    def segment_ids(self, batch: TableBatch) -> Tensor:
        """Return row ids for row heads and column ids for column heads, Int64 [groups, B, T]."""
        views = [batch.row_ids] * (self.num_row_heads > 0) + [batch.column_ids] * (self.num_row_heads < self.num_heads)
        return torch.stack(views)

    def global_tokens(self, batch: TableBatch) -> Tensor:
        """Return the mask of the tokens of the question and the special tokens, Bool [B, T]."""
        return global_tokens(batch)

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Compute the masks of allowed pairs for row heads and column heads, Bool [B, groups, T, T].

        Padding attends to all real tokens, so every query has a key.
        """
        ids = self.segment_ids(batch).transpose(0, 1)
        is_real, is_global = batch.attention_mask == 1, global_tokens(batch)
        same_segment = ids[..., :, None] == ids[..., None, :]
        sees_all = (is_global | ~is_real)[:, None, :, None]
        return (same_segment | sees_all | is_global[:, None, None, :]) & is_real[:, None, None, :]


class SatLayer(AttentionPattern):
    """A token attends to its row, the header row, global tokens and possibly its column.

    Unlike in `SameRowOrColumn`, a body cell attends to the headers of all columns. A header cell attends to the header
    row, the global tokens and, if `columns` is True, its column. Global tokens attend to all tokens.

    Args:
        num_heads: number N of attention heads.
        columns: also attend to the same column: True for the upper layers, False for the lower layers.

    Source: Zhang et al., "Table Fact Verification with Structure-Aware Transformer", EMNLP 2020; zhhongzhi/sat4table.
    """

    def __init__(self, num_heads: int, *, columns: bool) -> None:
        super().__init__(num_heads)
        self.columns = columns

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Compute the mask of allowed pairs, which all heads share, Bool [B, 1, T, T].

        Padding has row id 0, so it attends to the question and the header.
        """
        is_real, is_global = batch.attention_mask == 1, global_tokens(batch)
        mask = equal_ids(batch.row_ids) | is_global[:, :, None] | (is_global | (batch.row_ids == 0))[:, None, :]
        if self.columns:
            mask |= equal_ids(batch.column_ids)
        return (mask & is_real[:, None, :])[:, None]


class Window(AttentionPattern):
    """A token attends to the real tokens at a distance of at most `radius` tokens.

    Args:
        num_heads: number N of attention heads.
        radius: number of positions on each side.

    Source: Ainslie et al., "ETC: Encoding Long and Structured Inputs in Transformers", EMNLP 2020, section 3.
    """

    def __init__(self, num_heads: int, radius: int) -> None:
        super().__init__(num_heads)
        self.radius = radius

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Compute the mask of pairs within the window, Bool [B, 1, T, T]. A padding query may have no key."""
        is_real = batch.attention_mask == 1
        position = torch.arange(is_real.shape[1], device=is_real.device)
        return ((position - position[:, None]).abs() <= self.radius) & is_real[:, None, None, :]


class CandidateBlocks(AttentionPattern):
    """A token attends to the tokens of the same candidate, which have the same row id. No token is global."""

    def segment_ids(self, batch: TableBatch) -> Tensor:
        """Return the index of the candidate of every token, Int64 [1, B, T]."""
        return batch.row_ids[None]

    def global_tokens(self, batch: TableBatch) -> Tensor:
        """Return False for every token, Bool [B, T]: no token is global."""
        return torch.zeros_like(batch.row_ids, dtype=torch.bool)

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Compute the mask of pairs within one candidate, Bool [B, 1, T, T].

        Padding attends to all real tokens, so every query has a key.
        """
        is_real = batch.attention_mask == 1
        return ((equal_ids(batch.row_ids) | ~is_real[:, :, None]) & is_real[:, None, :])[:, None]


class PreviousSegment(AttentionPattern):
    """A token attends to its segment, numbered by row id, and to the previous segment.

    Source: Dai et al., "Transformer-XL: Attentive Language Models beyond a Fixed-Length Context", ACL 2019,
        section 3.2.
    """

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Compute the mask of allowed pairs, which all heads share, Bool [B, 1, T, T].

        Padding attends to all real tokens, so every query has a key.
        """
        is_real = batch.attention_mask == 1
        distance = batch.row_ids[:, :, None] - batch.row_ids[:, None, :]
        return (((distance == 0) | (distance == 1) | ~is_real[:, :, None]) & is_real[:, None, :])[:, None]
