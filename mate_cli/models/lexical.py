"""MATE over cells: a token is a cell, known by how well its words fit the question, and not by the words themselves.

It learns from a few thousand questions which row and column are meant, where a network over words does not.
"""

from typing import Any

from torch import nn

from mate_cli.models.base.table_encoder import initialise
from mate_cli.models.layers.embeddings import LAYER_NORM_EPSILON, FastDropout, FeatureEmbeddings
from mate_cli.models.mate import MateEncoder


class Lexical(MateEncoder):
    """Row and column heads over the features of cells (`encoding=lexical`)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "vocab_size": 1})
        embeddings = CellEmbeddings(self.size.hidden_size, options.get("hidden_dropout", 0.1))
        self.embeddings = embeddings  # type: ignore[assignment]  # called alike, but has no words
        self.embeddings.apply(initialise)


class CellEmbeddings(FeatureEmbeddings):
    """The features of cells in place of words, normalised as words are."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__(width, dropout)
        self.features.extend([nn.LayerNorm(width, eps=LAYER_NORM_EPSILON), FastDropout(dropout)])
