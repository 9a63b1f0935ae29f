"""TAPAS: full attention over the table embeddings.

Source: Herzig et al., "TaPas: Weakly Supervised Table Parsing via Pre-training", ACL 2020.
"""

from typing import Any

from mate_cli.attention.base import AttentionBackend
from mate_cli.attention.patterns import Full
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import LayerSpec


class Tapas(TableEncoder):
    """A table encoder in which every token attends to every token."""

    def __init__(self, size: str | EncoderSize, *, attention: AttentionBackend, **options: Any) -> None:
        super().__init__(size, lambda shape: LayerSpec(Full(shape.num_heads), attention), **options)
