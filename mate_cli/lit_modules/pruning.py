"""The input that a network keeps, read from its output: no task and no metric knows which network it is."""

import math

import torch

from mate_cli.metrics.pruning import Pruning
from mate_cli.models.base.encoder_output import EncoderOutput
from mate_cli.tokenization.layout import TableBatch, gather_tokens


def prunings(batch: TableBatch, output: EncoderOutput, *, of_answers: bool) -> list[Pruning]:
    """Return what is left of each example, and of its answer where labels mark it.

    An empty list where every token is kept.
    """
    left = output.batch
    if left.places is None:
        return []
    tokens = (left.attention_mask == 1).sum(1).tolist()
    answer_kept: list[bool | None] = [None] * len(tokens)
    margins: list[float | None] = [None] * len(tokens)
    if of_answers and batch.label_ids is not None and left.label_ids is not None:
        known, survive = ((labels > 0).any(1).tolist() for labels in (batch.label_ids, left.label_ids))
        answer_kept = [some if there else None for there, some in zip(known, survive, strict=True)]
        if output.scores is not None:
            differences = _margins(output.scores, batch.label_ids > 0, left)
            margins = [value if math.isfinite(value) else None for value in differences.tolist()]
    columns = zip(batch.example_ids, tokens, answer_kept, margins, strict=True)
    return [Pruning(*values) for values in columns]


def _margins(scores: torch.Tensor, in_answer: torch.Tensor, left: TableBatch) -> torch.Tensor:
    """Return the mean score of the answer's tokens less that of the table's that are left [B].

    NaN where there are none.
    """
    assert left.places is not None
    in_table = (left.column_ids > 0) & (left.attention_mask == 1)
    return _mean(scores, in_answer) - _mean(gather_tokens(scores, left.places), in_table)


def _mean(scores: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Return the mean over the chosen tokens of each example, [B, T] to [B]; NaN where none is."""
    return scores.float().masked_fill(~chosen, 0.0).sum(1) / chosen.sum(1)
