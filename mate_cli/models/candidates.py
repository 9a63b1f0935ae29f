"""BERT over candidates, concatenated in one input but encoded independently.

Source: Chen et al. 2020, "HybridQA", section 4.2, where every candidate is a separate input. Concatenated candidates
need no padding. With new layers on top (`model=deeper`): Xu et al., "Optimizing Deeper Transformers on Small
Datasets", ACL 2021, section 4.2.
"""

from typing import Any

from mate_cli.attention.base import AttentionBackend
from mate_cli.attention.patterns import CandidateBlocks
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import LayerSpec


class Candidates(TableEncoder):
    """BERT with word, position and segment embeddings, in which tokens attend within their candidate."""

    def __init__(self, size: str | EncoderSize, *, attention: AttentionBackend, **options: Any) -> None:
        def spec(shape: EncoderSize) -> LayerSpec:
            return LayerSpec(CandidateBlocks(shape.num_heads), attention)

        super().__init__(size, spec, token_types=("segment_ids",), **options)
