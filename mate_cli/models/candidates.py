"""BERT over candidates: texts side by side in one stream, each read as if it stood alone.

Source: Chen et al. 2020, "HybridQA", section 4.2: every candidate is an input of its own. Laid out side by side, they
need no padding. With new layers behind it (`model=deeper`): Xu et al., "Optimizing Deeper Transformers on Small
Datasets", ACL 2021, section 4.2.
"""

from typing import Any

from mate_cli.attention.base import AttentionBackend
from mate_cli.attention.patterns import CandidateBlocks
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import LayerSpec


class Candidates(TableEncoder):
    """BERT with words, positions and segments, which sees one candidate at a time."""

    def __init__(self, size: str | EncoderSize, *, attention: AttentionBackend, **options: Any) -> None:
        def spec(shape: EncoderSize) -> LayerSpec:
            return LayerSpec(CandidateBlocks(shape.num_heads), attention)

        super().__init__(size, spec, token_types=("segment_ids",), **options)
