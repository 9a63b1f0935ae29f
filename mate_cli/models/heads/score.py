"""The last layer of a head."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from mate_cli.models.base.encoder_output import EncoderOutput
from mate_cli.models.layers.embeddings import FeatureEmbeddings

DEVIATION = 0.02
"""Standard deviation of the weights before training, as in BERT."""


class Score(nn.Linear):
    """A dense layer whose weights are drawn from a truncated normal, or start at zero; biases are zero.

    Source: google-research/tapas, `tapas_classifier_model_utils.classification_initializer`.
    """

    def __init__(self, inputs: int, outputs: int, *, zero: bool = False) -> None:
        super().__init__(inputs, outputs)
        nn.init.zeros_(self.bias)
        if zero:
            nn.init.zeros_(self.weight)
        else:
            nn.init.trunc_normal_(self.weight, std=DEVIATION, a=-2 * DEVIATION, b=2 * DEVIATION)


class ClassHead(Score):
    """Scores classes from the pooled state [B, D]: [B, classes].

    Args:
        lexical: embeds the lexical features of cells; the largest numbers of any cell are added to the pooled state:
            thousands of examples pass before attention brings them there.

    Source: google-research/tapas, `tapas_classifier_model.compute_classification_logits` (one layer; the DoT paper
        speaks of a hidden one).
    """

    transformers_names: ClassVar[Mapping[str, str]] = {"weight": "classifier.weight", "bias": "classifier.bias"}
    """Our parameters, and what they are called there."""

    def __init__(self, hidden_size: int, classes: int = 2, lexical: FeatureEmbeddings | None = None) -> None:
        super().__init__(hidden_size, classes)
        self.lexical = lexical

    def forward(self, output: EncoderOutput) -> Tensor:  # type: ignore[override]  # of all that a network makes
        """Return the scores."""
        pooled, batch = output.pooled, output.batch
        if self.lexical is not None and batch.cell_features is not None:
            cells = self.lexical.embed(batch.cell_features)
            pooled = pooled + cells.masked_fill(batch.attention_mask.unsqueeze(-1) == 0, float("-inf")).amax(1)
        return super().forward(pooled)
