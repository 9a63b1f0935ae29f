"""BERT over candidates: texts side by side in one stream, each read as if it stood alone.

Source: Chen et al. 2020, "HybridQA", section 4.2: every candidate is an input of its own. Laid out side by side, they
need no padding.
"""

from __future__ import annotations

from typing import Any

from mate_cli.attention.base import AttentionBackend
from mate_cli.attention.patterns.candidates import CandidateBlocks
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import LayerSpec


class Candidates(TableEncoder):
    """BERT with words, positions and segments, which sees one candidate at a time."""

    def __init__(
        self,
        size: str | EncoderSize,
        *,
        attention: AttentionBackend,
        **options: Any,  # noqa: ANN401 - passed on
    ) -> None:
        def spec(size: EncoderSize) -> LayerSpec:
            return LayerSpec(CandidateBlocks(size.num_heads), attention)

        shape = encoder_size(size)
        super().__init__(
            size, [spec(shape)] * shape.num_layers, token_types=("segment_ids",), extra_spec=spec, **options
        )
