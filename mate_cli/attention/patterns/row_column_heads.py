"""MATE's pattern: some heads see the row, the others see the column.

Source: Eisenschlos et al., "MATE: Multi-view Attention for Table Transformer Efficiency", section 3;
google-research/tapas, `attention_utils`, mode `headwise_same_colum_or_row`.
"""

import torch
from torch import Tensor

from mate_cli.attention.pattern import AttentionPattern, global_tokens
from mate_cli.errors import ConfigError
from mate_cli.tokenization.layout import TableBatch


class RowColumnHeads(AttentionPattern):
    """Row heads, which come first, see the same row; column heads the same column; global tokens see and are seen.

    Args:
        row_head_ratio: the share of row heads; their number is rounded down.

    Raises:
        ConfigError: the ratio is not a share.
    """

    def __init__(self, num_heads: int, row_head_ratio: float = 0.5) -> None:
        if not 0 <= row_head_ratio <= 1:
            raise ConfigError(
                f"row_head_ratio is {row_head_ratio}",
                where="model.row_head_ratio",
                remedy="Choose a number from 0 to 1",
            )
        self.num_row_heads = int(num_heads * row_head_ratio)
        super().__init__(self.num_row_heads, num_heads - self.num_row_heads)

    def group_labels(self) -> list[str]:
        """Row heads and column heads, where there are both."""
        if len(self.head_groups) == 1:
            return super().group_labels()
        named = zip(self.head_groups, ("row", "column"), strict=True)
        return [f"{heads} {kind} head{'s' * (heads > 1)}" for heads, kind in named]

    def segment_ids(self, batch: TableBatch) -> Tensor:
        """Row ids for the row heads, column ids for the column heads: Int64 [groups, B, T]."""
        views = [batch.row_ids] * (self.num_row_heads > 0) + [batch.column_ids] * (self.num_row_heads < self.num_heads)
        return torch.stack(views)

    def global_tokens(self, batch: TableBatch) -> Tensor:
        """The question and the special tokens, Bool [B, T]."""
        return global_tokens(batch)

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Bool [B, groups, T, T]; padding sees all that is real, so that no query is left without a key."""
        ids = self.segment_ids(batch).transpose(0, 1)
        real, is_global = batch.attention_mask == 1, global_tokens(batch)
        same_segment = ids[..., :, None] == ids[..., None, :]
        sees_all = (is_global | ~real)[:, None, :, None]
        return (same_segment | sees_all | is_global[:, None, None, :]) & real[:, None, None, :]
