"""Base class of tasks that select one of several candidates."""

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
    """The candidate that a network selects for one example.

    Args:
        example_id: id of the example.
        place: index of the candidate, from 0.
        probability: probability of the candidate, from the softmax over all candidates.
    """

    example_id: str
    place: int
    probability: float


class CandidateTask(TableTask[ExampleT, Choice]):
    """Base class of tasks that select one of several candidates, such as nodes of a graph.

    The loss is the cross entropy of the softmax over candidates. Its target is the uniform distribution over the
    correct candidates.
    """

    def output_loss(self, output: EncoderOutput, head: nn.Module, encoder: TableEncoder) -> torch.Tensor:
        """Compute the cross entropy of the candidates, averaged over examples, a scalar.

        The head maps an encoder output and a pooler to the logits of K candidates, the maximum number per example. The
        tokens of candidate k, counted from 1, have row id k.

        Args:
            output: output of the encoder.
            head: head of the task, or the second head for the auxiliary encoder of the network.
            encoder: encoder that computed `output`.
        """
        scores: CandidateLogits = head(output, encoder.pooler)
        losses = soft_cross_entropy(scores.logits, scores.mask, scores.right)
        return self.average_terms(losses.sum(), output.batch)

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[Choice]:
        """Return the most probable candidate of each example."""
        scores = self.head(output, self.encoder.pooler)
        probabilities, indices = scores.logits.masked_fill(~scores.mask, -torch.inf).softmax(-1).max(-1)
        choices = zip(output.batch.example_ids, indices.tolist(), probabilities.tolist(), strict=True)
        return [Choice(*choice) for choice in choices]


class CandidateLogits(NamedTuple):
    """Logits of the candidates of every example, padded to the maximum number of candidates.

    All tensors are [B, K], where K is the maximum number of candidates of an example.

    Args:
        logits: logit of each candidate, 0 on padding.
        mask: False on padding, Bool.
        right: True for correct candidates, Bool. All False if the labels are unknown.
    """

    logits: Tensor
    mask: Tensor
    right: Tensor


def logits_of(scores: Tensor, batch: TableBatch) -> CandidateLogits:
    """Group the logits of all candidates of a batch by example, with padding.

    Args:
        scores: logits of all candidates, [candidates, 1], in the order of the tokens.
        batch: batch in which the tokens of candidate k, counted from 1, have row id k.
    """
    example, token = first_tokens(batch)
    candidate = batch.row_ids[example, token] - 1

    def spread(values: Tensor) -> Tensor:
        slots = values.new_zeros(len(batch.row_ids), int(candidate.max()) + 1 if len(candidate) else 1)
        return slots.index_put((example, candidate), values)

    labels = torch.zeros_like(batch.row_ids) if batch.label_ids is None else batch.label_ids
    mask = spread(torch.ones_like(candidate, dtype=torch.bool))
    return CandidateLogits(spread(scores.squeeze(-1).float()), mask, spread(labels[example, token] == 1))


def first_tokens(batch: TableBatch) -> tuple[Tensor, Tensor]:
    """Find the first token of every candidate of a batch.

    Returns:
        Indices of examples and indices of tokens, Int64 [candidates] each, in the order of the tokens.
    """
    previous_row_ids = torch.nn.functional.pad(batch.row_ids, (1, 0))[:, :-1]
    example, token = ((batch.row_ids != previous_row_ids) & (batch.attention_mask == 1)).nonzero(as_tuple=True)
    return example, token
