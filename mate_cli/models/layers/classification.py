"""One class for a whole example."""

from __future__ import annotations

from torch import Tensor

from mate_cli.models.layers.embeddings import FeatureEmbeddings
from mate_cli.models.layers.score import Score


class ClassHead(Score):
    """Scores classes from the pooled state [B, D]: [B, classes].

    Args:
        hidden_size: D.
        classes: their number.
        lexical: embeds the largest lexical features of any cell, which are added to the pooled state: thousands of
            examples pass before attention brings them there.

    Source: google-research/tapas, `tapas_classifier_model.compute_classification_logits` (one layer; the DoT paper
        speaks of a hidden one).
    """

    def __init__(self, hidden_size: int, classes: int = 2, lexical: FeatureEmbeddings | None = None) -> None:
        super().__init__(hidden_size, classes)
        self.lexical = lexical

    def forward(self, pooled: Tensor, features: Tensor | None = None) -> Tensor:
        """The scores.

        Args:
            pooled: of each example, [B, D].
            features: of each token's cell, [B, T, F], none below zero, which is the padding.
        """
        if self.lexical is not None and features is not None:
            pooled = pooled + self.lexical.features(features.amax(1))
        return super().forward(pooled)
