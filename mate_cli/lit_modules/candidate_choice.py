"""One candidate is chosen of those that stand side by side."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mate_cli.lit_modules.base import ExampleT, TableTask
from mate_cli.lit_modules.losses import soft_cross_entropy
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class Choice:
    """The best candidate of one example.

    Args:
        place: its place among the candidates, from 0.
        probability: of the softmax over the candidates.
    """

    example_id: str
    place: int
    probability: float


class CandidateTask(TableTask[ExampleT, Choice]):
    """Softmax over the candidates of a question, cross entropy towards all right ones alike."""

    def output_loss(self, output: EncoderOutput, head: nn.Module, encoder: TableEncoder) -> torch.Tensor:
        """Average the losses of all examples, a scalar.

        A head maps an output and a pooler to the scores of K candidates, the most that an example has; number k has
        row id k.
        """
        scores: CandidateLogits = head(output, encoder.pooler)
        losses = soft_cross_entropy(scores.logits, scores.mask, scores.right)
        return self.average_terms(losses.sum(), output.batch)

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[Choice]:
        """Choose a candidate of each example."""
        scores = self.head(output, self.encoder.pooler)
        best, places = scores.logits.masked_fill(~scores.mask, -torch.inf).softmax(-1).max(-1)
        return [Choice(*parts) for parts in zip(output.batch.example_ids, places.tolist(), best.tolist(), strict=True)]


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
