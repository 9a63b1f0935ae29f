"""A score for every candidate of a question.

Source: wenhuchen/HybridQA, `train_stage12.py`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mate_cli.models.base.encoder_output import EncoderOutput
from mate_cli.models.layers.embeddings import FastDropout
from mate_cli.tokenization.layout import TableBatch

SIDE_SIZE = 32
"""Numbers in the embedding of each side feature."""


class CandidateLogits(NamedTuple):
    """Scores of the candidates of every example, in their order; all are [B, K].

    Args:
        logits: the score of each candidate, 0 where there is none.
        mask: Bool, True where there is a candidate.
        right: Bool, True for right candidates; all False when labels are not known.
    """

    logits: Tensor
    mask: Tensor
    right: Tensor


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


class OptionHead(nn.Module):
    """Scores the first token of each candidate by a dense layer, without pooling it.

    Source: Xu et al. 2021, "Optimizing Deeper Transformers on Small Datasets", appendix D.
    """

    def __init__(self, hidden_size: int, dropout: float) -> None:
        super().__init__()
        self.dropout = FastDropout(dropout)
        self.score = nn.Linear(hidden_size, 1)

    def forward(self, output: EncoderOutput, pooler: nn.Module) -> CandidateLogits:
        """Map states [B, T, D] to the scores of candidates, see `CandidateHead`; the pooler is not asked."""
        example, token = first_tokens(output.batch)
        return logits_of(self.score(self.dropout(output.states[example, token])), output.batch)


def logits_of(scores: Tensor, batch: TableBatch) -> CandidateLogits:
    """Return the scores [candidates, 1] in reading order, by example."""
    example, token = first_tokens(batch)
    candidate = batch.row_ids[example, token] - 1

    def spread(values: Tensor) -> Tensor:
        slots = values.new_zeros(len(batch.row_ids), int(candidate.max()) + 1 if len(candidate) else 1)
        return slots.index_put((example, candidate), values)

    labels = torch.zeros_like(batch.row_ids) if batch.label_ids is None else batch.label_ids
    mask = spread(torch.ones_like(candidate, dtype=torch.bool))
    return CandidateLogits(spread(scores.squeeze(-1).float()), mask, spread(labels[example, token] == 1))


def first_tokens(batch: TableBatch) -> tuple[Tensor, Tensor]:
    """Return example and token of the first token of every candidate, in reading order; Int64 [candidates]."""
    before = torch.nn.functional.pad(batch.row_ids, (1, 0))[:, :-1]
    example, token = ((batch.row_ids != before) & (batch.attention_mask == 1)).nonzero(as_tuple=True)
    return example, token
