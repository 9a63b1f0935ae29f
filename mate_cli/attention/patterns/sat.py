"""SAT's own masks: rows in the lower layers, rows and columns in the upper ones, the header visible to all.

Source: Zhang et al., "Table Fact Verification with Structure-Aware Transformer", EMNLP 2020; zhhongzhi/sat4table.
"""

from torch import Tensor

from mate_cli.attention.pattern import AttentionPattern, global_tokens
from mate_cli.attention.patterns.same_row_or_column import same
from mate_cli.tokenization.layout import TableBatch


class SatLayer(AttentionPattern):
    """A token sees its row, the header row and the global tokens, and its column too where `columns` says so.

    Unlike in `SameRowOrColumn` a body cell sees the headers of other columns. The header sees only what all see
    (and its columns); global tokens see everything.

    Args:
        columns: True for the upper layers, False for the lower ones.
    """

    def __init__(self, num_heads: int, *, columns: bool) -> None:
        super().__init__(num_heads)
        self.columns = columns

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Bool [B, 1, T, T]; row 0 is the question and the header, so padding (row 0 too) sees these."""
        real, is_global = batch.attention_mask == 1, global_tokens(batch)
        seen = same(batch.row_ids) | is_global[:, :, None] | (is_global | (batch.row_ids == 0))[:, None, :]
        if self.columns:
            seen |= same(batch.column_ids)
        return (seen & real[:, None, :])[:, None]
