"""MATE over cells, represented by lexical overlap with the question.

Each token is a cell, and words are not embedded. This network learns from a few thousand questions which row and column
are meant. A network over words does not.
"""

from typing import Any

from torch import nn

from mate_cli.models.base.table_encoder import initialise
from mate_cli.models.layers.embeddings import FeatureEmbeddings
from mate_cli.models.layers.encoder import LAYER_NORM_EPSILON, FastDropout
from mate_cli.models.mate import MateEncoder


class Lexical(MateEncoder):
    """MATE whose tokens are cells, embedded by their lexical overlap with the question (`encoding=lexical`)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "vocab_size": 1})
        embeddings = CellEmbeddings(self.size.hidden_size, options.get("hidden_dropout", 0.1))
        # The class has the same call signature as `TableEmbeddings`, but no word embeddings.
        self.embeddings = embeddings  # type: ignore[assignment]
        self.embeddings.apply(initialise)


class CellEmbeddings(FeatureEmbeddings):
    """Embeds cells by their lexical features only, with LayerNorm and dropout."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__(width, dropout)
        self.features.extend([nn.LayerNorm(width, eps=LAYER_NORM_EPSILON), FastDropout(dropout)])
