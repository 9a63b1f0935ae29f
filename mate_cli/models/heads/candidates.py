"""A score for every candidate of a question.

Source: wenhuchen/HybridQA, `train_stage12.py`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mate_cli.models.base.encoder_output import EncoderOutput
from mate_cli.tokenization.layout import TableBatch

SIDE_SIZE = 32
"""Numbers in the embedding of each side feature."""


class FirstTokens(NamedTuple):
    """The first token of every candidate, in reading order; Int64 [candidates].

    Args:
        example: that it is in.
        token: its place there.
        number: of the candidate in its example, from 0.
        shape: B, and K, the most candidates that an example has, at least 1.
    """

    example: Tensor
    token: Tensor
    number: Tensor
    shape: tuple[int, int]

    def of(self, values: Tensor) -> Tensor:
        """Return what belongs to these tokens: [B, T, ...] to [candidates, ...]."""
        return values[self.example, self.token]

    def spread(self, values: Tensor) -> Tensor:
        """Return what belongs to candidates [candidates, ...] by example, [B, K, ...]; zero where there is none."""
        empty = values.new_zeros(*self.shape, *values.shape[1:])
        return empty.index_put((self.example, self.number), values)

    @property
    def exists(self) -> Tensor:
        """True where there is a candidate, Bool [B, K]."""
        return self.spread(torch.ones_like(self.number, dtype=torch.bool))


def first_tokens(batch: TableBatch, least: int = 1) -> FirstTokens:
    """Find the first token of every candidate, or node of a graph; with room for `least` of them in every example."""
    before = torch.nn.functional.pad(batch.row_ids, (1, 0))[:, :-1]
    example, token = ((batch.row_ids != before) & (batch.attention_mask == 1)).nonzero(as_tuple=True)
    number = batch.row_ids[example, token] - 1
    count = max(int(number.max()) + 1 if len(number) else 1, least)
    return FirstTokens(example, token, number, (len(batch.row_ids), count))


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
        first = first_tokens(batch)
        found = [pooler(first.of(states)[:, None])]
        if len(self.side):
            assert batch.cell_features is not None
            values = first.of(batch.cell_features).long().unbind(-1)
            found += [table(value) for table, value in zip(self.side, values, strict=True)]
        return logits_of(self.score(torch.cat(found, -1)), first, batch)


class OptionHead(nn.Module):
    """Scores the first token of each candidate by a dense layer, without pooling it.

    Source: Xu et al. 2021, "Optimizing Deeper Transformers on Small Datasets", appendix D.
    """

    def __init__(self, hidden_size: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.score = nn.Linear(hidden_size, 1)

    def forward(self, output: EncoderOutput, pooler: nn.Module) -> CandidateLogits:
        """Map states [B, T, D] to the scores of candidates, see `CandidateHead`; the pooler is not asked."""
        first = first_tokens(output.batch)
        return logits_of(self.score(self.dropout(first.of(output.states))), first, output.batch)


def logits_of(scores: Tensor, first: FirstTokens, batch: TableBatch) -> CandidateLogits:
    """Return the scores [candidates, 1] in reading order, by example."""
    labels = torch.zeros_like(batch.row_ids) if batch.label_ids is None else batch.label_ids
    right = first.spread(first.of(labels) == 1)
    return CandidateLogits(first.spread(scores.squeeze(-1).float()), first.exists, right)
