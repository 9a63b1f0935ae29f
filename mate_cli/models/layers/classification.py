"""One class for a whole example."""

from __future__ import annotations

from mate_cli.models.layers.score import Score


class ClassHead(Score):
    """Scores classes from the pooled state [B, D]: [B, classes].

    Args:
        hidden_size: D.
        classes: their number.

    Source: google-research/tapas, `tapas_classifier_model.compute_classification_logits` (one layer; the DoT paper
        speaks of a hidden one).
    """

    def __init__(self, hidden_size: int, classes: int = 2) -> None:
        super().__init__(hidden_size, classes)
