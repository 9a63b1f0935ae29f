"""A score for every candidate of a question."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from mate_cli.models.base.encoder_output import EncoderOutput
from mate_cli.tokenization.layout import TableBatch


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


class CandidateScorer(Protocol):
    """A head that scores candidates."""

    def __call__(self, output: EncoderOutput, pooler: nn.Module) -> CandidateLogits:
        """Map states [B, T, D] to the scores of K candidates, the most that an example has; number k has row id k."""


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
