"""SAT: all attention heads attend to the row and the column of a token.

The variants are the baseline of the MATE paper and the original code.

Source: Zhang et al., "Table Fact Verification with Structure-Aware Transformer", EMNLP 2020; zhhongzhi/sat4table.
"""

from typing import Any, Literal

from mate_cli.attention.base import AttentionBackend
from mate_cli.attention.patterns import SameRowOrColumn, SatLayer
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import LayerSpec


class Sat(TableEncoder):
    """A table encoder in which every head attends to the row and the column of a token.

    Args:
        variant: `tapas`: the mask of google-research/tapas in all layers, with the embeddings of TAPAS. `original`: the
            lower half of the layers attends to rows only, all tokens attend to the header, and only words, positions
            and segments are embedded. `encoding=sat` adds the table preprocessing of the original code.
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
