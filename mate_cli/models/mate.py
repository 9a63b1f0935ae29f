"""MATE: attention heads that attend within rows (row heads) or within columns (column heads).

Source: Eisenschlos et al., "MATE: Multi-view Attention for Table Transformer Efficiency", EMNLP 2021.
"""

from typing import Annotated, Any

from pydantic import Field

from mate_cli.attention.base import AttentionBackend
from mate_cli.attention.patterns import RowColumnHeads
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import LayerSpec

RowHeadRatio = Annotated[float, Field(ge=0, le=1)]
"""Fraction of attention heads that attend within rows."""


class MateEncoder(TableEncoder):
    """A table encoder in which each head attends within rows or within columns.

    Args:
        row_head_ratio: fraction of attention heads that attend within rows.
    """

    def __init__(
        self,
        size: str | EncoderSize,
        *,
        attention: AttentionBackend,
        row_head_ratio: RowHeadRatio = 0.5,
        **options: Any,
    ) -> None:
        def spec(shape: EncoderSize) -> LayerSpec:
            return LayerSpec(RowColumnHeads(shape.num_heads, row_head_ratio), attention)

        super().__init__(size, spec, **options)
