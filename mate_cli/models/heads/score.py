"""The last layer of a head."""

from torch import nn

DEVIATION = 0.02
"""Of the weights before training, as in BERT."""


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
