"""The score of a linked place or a page, with what is known of it beside its text.

Source: wenhuchen/HybridQA, `train_stage12.py`.
"""

from collections.abc import Sequence

import torch
from torch import nn

from mate_cli.models.base.encoder_output import EncoderOutput
from mate_cli.models.heads.candidates import CandidateLogits, first_tokens, logits_of

SIDE_SIZE = 32
"""Numbers in the embedding of each side feature."""


class CandidateHead(nn.Module):
    """Pools the first token of each candidate and scores it, with side features, by a network of one hidden layer.

    Args:
        side_vocabularies: how many values each side feature has; `cell_features` hold the values.
    """

    def __init__(self, hidden_size: int, side_vocabularies: Sequence[int] = ()) -> None:
        super().__init__()
        self.side = nn.ModuleList(nn.Embedding(values, SIDE_SIZE) for values in side_vocabularies)
        width = hidden_size + SIDE_SIZE * len(side_vocabularies)
        self.score = nn.Sequential(nn.Linear(width, hidden_size), nn.ReLU(), nn.Linear(hidden_size, 1))

    def forward(self, output: EncoderOutput, pooler: nn.Module) -> CandidateLogits:
        """Map states [B, T, D] to the scores of K candidates, the most that an example has; number k has row id k."""
        states, batch = output.states, output.batch
        example, token = first_tokens(batch)
        found = [pooler(states[example, token][:, None])]
        if len(self.side):
            assert batch.cell_features is not None
            values = batch.cell_features[example, token].long().unbind(-1)
            found += [table(value) for table, value in zip(self.side, values, strict=True)]
        return logits_of(self.score(torch.cat(found, -1)), batch)
