"""Every token sees every token that is not padding, as in BERT and TAPAS."""

import torch
from torch import Tensor

from mate_cli.attention.pattern import AttentionPattern
from mate_cli.tokenization.layout import TableBatch


class Full(AttentionPattern):
    """Every token sees every token that is not padding."""

    def segment_ids(self, batch: TableBatch) -> Tensor:
        """One segment, in which all are global: Int64 [1, B, T]."""
        return torch.zeros_like(batch.row_ids)[None]

    def global_tokens(self, batch: TableBatch) -> Tensor:
        """All real tokens, Bool [B, T]."""
        return batch.attention_mask == 1

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Bool [B, 1, T, T], the same row for every query (a view that takes no memory)."""
        real = batch.attention_mask == 1
        return real[:, None, None, :].expand(-1, 1, real.shape[1], -1)
