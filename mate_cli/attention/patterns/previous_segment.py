"""Segments of a long text: each is read with the one before it, and so on from layer to layer.

Source: Dai et al., "Transformer-XL: Attentive Language Models beyond a Fixed-Length Context", ACL 2019, section 3.2.
"""

from torch import Tensor

from mate_cli.attention.pattern import AttentionPattern
from mate_cli.tokenization.layout import TableBatch


class PreviousSegment(AttentionPattern):
    """A token sees the tokens of its own segment, whose number is its row id, and of the segment before."""

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Bool [B, 1, T, T]; padding sees all that is real, so that no query is left without a key."""
        real = batch.attention_mask == 1
        back = batch.row_ids[:, :, None] - batch.row_ids[:, None, :]
        return (((back == 0) | (back == 1) | ~real[:, :, None]) & real[:, None, :])[:, None]
