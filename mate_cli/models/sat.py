"""SAT: all heads see the row and the column, as the MATE paper compares it, or as its authors made it.

Source: Zhang et al., "Table Fact Verification with Structure-Aware Transformer", EMNLP 2020; zhhongzhi/sat4table.
"""

from typing import Any, Literal

from mate_cli.attention.base import AttentionBackend
from mate_cli.attention.patterns import SameRowOrColumn, SatLayer
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import LayerSpec


class Sat(TableEncoder):
    """A table encoder of which every head sees the row and the column.

    Args:
        variant: `tapas`: the mask of that code base in all layers, and the embeddings of TAPAS; `original`: rows only
            in the lower half of the layers, the header visible to all, and nothing embedded but words, positions and
            segments. What the authors also do to the table itself is `encoding=sat`.
    """

    def __init__(
        self,
        size: str | EncoderSize,
        *,
        attention: AttentionBackend,
        variant: Literal["tapas", "original"] = "tapas",
        **options: Any,
    ) -> None:
        shape = encoder_size(size)
        if variant == "tapas":
            layers = [LayerSpec(SameRowOrColumn(shape.num_heads), attention)] * shape.num_layers
            super().__init__(size, layers, **options)
            return
        lower, upper = (LayerSpec(SatLayer(shape.num_heads, columns=columns), attention) for columns in (False, True))
        half = shape.num_layers // 2
        layers = [lower] * half + [upper] * (shape.num_layers - half)
        super().__init__(size, layers, token_types=("segment_ids",), **options)
