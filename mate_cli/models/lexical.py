"""MATE over cells: a token is a cell, known by how well its words fit the question, and not by the words themselves.

It learns from a few thousand questions which row and column are meant, where a network over words does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from mate_cli.attention.packing import Packing
from mate_cli.errors import ConfigError
from mate_cli.models.layers.embeddings import LAYER_NORM_EPSILON
from mate_cli.models.mate import Mate
from mate_cli.models.table_encoder import initialise
from mate_cli.tokenization.lexical import FEATURES

if TYPE_CHECKING:
    from mate_cli.tokenization.layout import TableBatch


class Lexical(Mate):
    """Row and column heads over the features of cells (`encoding=lexical`).

    Args:
        **options: those of `Mate`.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**{**options, "vocab_size": 1})
        embeddings = FeatureEmbeddings(self.size.hidden_size, options.get("hidden_dropout", 0.1))
        self.embeddings = embeddings  # type: ignore[assignment]  # called alike, but has no words
        self.embeddings.apply(initialise)


class FeatureEmbeddings(nn.Module):
    """Embeds the features of tokens by a network with one hidden layer.

    Args:
        hidden_size: width D of the hidden layer and the states.
        dropout: the probability of dropping a number of the hidden layer or the result.
    """

    def __init__(self, hidden_size: int, dropout: float) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Linear(len(FEATURES), hidden_size),
            nn.LayerNorm(hidden_size, eps=LAYER_NORM_EPSILON),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden_size, hidden_size),
            nn.LayerNorm(hidden_size, eps=LAYER_NORM_EPSILON),
            nn.Dropout(dropout),
        )

    def forward(self, batch: TableBatch, packing: Packing) -> Tensor:
        """States of real tokens [P, D].

        Raises:
            ConfigError: the tokens have no features.
        """
        if batch.cell_features is None:
            raise ConfigError("these encodings have no features of cells", remedy="Set encoding=lexical")
        states: Tensor = self.features(packing.pack(batch.cell_features))
        return states
