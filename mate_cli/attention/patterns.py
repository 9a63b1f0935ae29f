"""Patterns: boolean masks that define which token may see which.

A pattern of your own is a class like these, in any module.
"""

import torch
from torch import Tensor

from mate_cli.attention.pattern import AttentionPattern, global_tokens
from mate_cli.errors import ConfigError
from mate_cli.tokenization.layout import TableBatch


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

    Raises:
        ConfigError: the ratio is not a share.

    Source: Eisenschlos et al., "MATE: Multi-view Attention for Table Transformer Efficiency", section 3;
        google-research/tapas, `attention_utils`, mode `headwise_same_colum_or_row`.
    """

    def __init__(self, num_heads: int, row_head_ratio: float = 0.5) -> None:
        if not 0 <= row_head_ratio <= 1:
            raise ConfigError(
                f"row_head_ratio is {row_head_ratio}",
                where="model.row_head_ratio",
                remedy="Choose a number from 0 to 1",
            )
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
