"""Transformer-XL's line of segments: the special case of Transformer-XH in which texts follow one another.

Source: Dai et al., "Transformer-XL: Attentive Language Models beyond a Fixed-Length Context", ACL 2019, section 3.2.
"""

from typing import Any

from mate_cli.attention.base import AttentionBackend
from mate_cli.attention.patterns import PreviousSegment
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import LayerSpec
from mate_cli.papers.transformer_xh.models.segment_memory import MemoryLayer, SegmentMemory


class TransformerXl(TableEncoder):
    """BERT over segments side by side, each of which sees all tokens of the one before.

    What is n segments back is seen after n layers. Positions restart in each segment; they are absolute, so that
    weights of BERT fit, not relative as in the paper.

    Args:
        attention: how attention is computed; not used with a memory.
        memory: the states of the segment before are a memory, into which no gradient flows, as in the paper.
    """

    def __init__(
        self, size: str | EncoderSize, *, attention: AttentionBackend, memory: bool = True, **options: Any
    ) -> None:
        shape = encoder_size(size)
        pattern = PreviousSegment(shape.num_heads)
        layer = LayerSpec(pattern, SegmentMemory(), MemoryLayer) if memory else LayerSpec(pattern, attention)
        super().__init__(size, [layer] * shape.num_layers, token_types=("segment_ids",), **options)
