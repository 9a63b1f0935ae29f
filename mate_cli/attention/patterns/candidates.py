"""Several texts side by side, none of which sees another: each is read as if it stood alone."""

import torch
from torch import Tensor

from mate_cli.attention.pattern import AttentionPattern
from mate_cli.attention.patterns.same_row_or_column import same
from mate_cli.tokenization.layout import TableBatch


class CandidateBlocks(AttentionPattern):
    """A token sees the tokens of its own candidate, whose number is its row id; no token is global."""

    def segment_ids(self, batch: TableBatch) -> Tensor:
        """The number of the candidate, Int64 [1, B, T]."""
        return batch.row_ids[None]

    def global_tokens(self, batch: TableBatch) -> Tensor:
        """None: Bool [B, T]."""
        return torch.zeros_like(batch.row_ids, dtype=torch.bool)

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Bool [B, 1, T, T]; padding sees all that is real, so that no query is left without a key."""
        real = batch.attention_mask == 1
        return ((same(batch.row_ids) | ~real[:, :, None]) & real[:, None, :])[:, None]
