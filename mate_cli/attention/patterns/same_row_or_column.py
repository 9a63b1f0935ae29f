"""Every head sees the row and the column: TAPAS's own sparse mode, and SAT as the MATE paper compares it.

Source: google-research/tapas, `attention_utils`, mode `same_colum_or_row`; MATE paper, section 5.1.
"""

from torch import Tensor

from mate_cli.attention.pattern import AttentionPattern, global_tokens
from mate_cli.tokenization.layout import TableBatch


class SameRowOrColumn(AttentionPattern):
    """A token sees its row and its column; global tokens see and are seen.

    Header cells are row 0, and so see one another; a body cell sees the header of its own column only.
    """

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Bool [B, 1, T, T]; padding sees all that is real, so that no query is left without a key."""
        real, is_global = batch.attention_mask == 1, global_tokens(batch)
        sees_all = (is_global | ~real)[:, :, None]
        seen = same(batch.row_ids) | same(batch.column_ids) | sees_all | is_global[:, None, :]
        return (seen & real[:, None, :])[:, None]


def same(ids: Tensor) -> Tensor:
    """Pairs of tokens with equal ids: [B, T] to Bool [B, T, T]."""
    return ids[:, :, None] == ids[:, None, :]
