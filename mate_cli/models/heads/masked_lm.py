"""Tell the word piece behind a mask."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import linear

from mate_cli.models.heads.score import DEVIATION
from mate_cli.models.layers.embeddings import LAYER_NORM_EPSILON
from mate_cli.models.layers.encoder import find_activation


class MaskedLMHead(nn.Module):
    """Scores every word piece of the vocabulary by the embeddings that the network reads; parameters as in BERT.

    Source: Devlin et al. 2019; google-research/tapas, `tapas_pretraining_model.get_masked_lm_output`.
    """

    transformers_names: ClassVar[Mapping[str, str]] = {
        "dense.weight": "cls.predictions.transform.dense.weight",
        "dense.bias": "cls.predictions.transform.dense.bias",
        "LayerNorm.weight": "cls.predictions.transform.LayerNorm.weight",
        "LayerNorm.bias": "cls.predictions.transform.LayerNorm.bias",
        "bias": "cls.predictions.bias",
    }
    """Our parameters, and what they are called there."""

    def __init__(self, hidden_size: int, vocab_size: int, activation: str = "gelu") -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)
        nn.init.trunc_normal_(self.dense.weight, std=DEVIATION, a=-2 * DEVIATION, b=2 * DEVIATION)
        nn.init.zeros_(self.dense.bias)
        self.activation = find_activation(activation)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=LAYER_NORM_EPSILON)
        self.bias = nn.Parameter(self.dense.weight.new_zeros(vocab_size))

    def forward(self, states: Tensor, words: Tensor) -> Tensor:
        """Score masked pieces: their states [M, D] by the embeddings of all pieces [V, D], to [M, V]."""
        return linear(self.LayerNorm(self.activation(self.dense(states))), words, self.bias)
