"""Losses over texts that are read: which hold the answer, where in them, and what supports it."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, pad

from mate_cli.papers.transformer_xh.arrays import SENTENCE_IDS
from mate_cli.papers.transformer_xh.models.evidence_heads import ReadingLogits, group_by_node, sentence_sums
from mate_cli.papers.transformer_xh.serializer import HAS_ANSWER, SUPPORTS, UNJUDGED
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class ReadingTargets:
    """Targets of answers that stand in one of several texts.

    Args:
        answers: Bool [B, K], nodes with the answer.
        judged: Bool [B, K], nodes of which somebody knows.
        starts: Bool [B, K, L], tokens that begin the answer.
        ends: Bool [B, K, L], tokens that end it.
        kinds: [B], -1 where not known.
        supporting: Bool [B, K, S], sentences that support the answer.

    Source: microsoft/Transformer-XH, `utils.py`: binary cross entropy of texts, and the mean cross entropy of the
        first and the last token over the texts that hold the answer.
    """

    answers: Tensor
    judged: Tensor
    starts: Tensor
    ends: Tensor
    kinds: Tensor
    supporting: Tensor


def reading_targets(batch: TableBatch, logits: ReadingLogits) -> ReadingTargets:
    """Return the targets of a batch that has labels."""
    assert batch.label_ids is not None
    assert batch.class_ids is not None
    labels = group_by_node(batch.label_ids, batch, logits.mask, 0)
    inside = pad((labels & HAS_ANSWER) > 0, (1, 1))
    numbers = batch.more.get(SENTENCE_IDS, torch.zeros_like(batch.row_ids))
    marked = sentence_sums((batch.label_ids & SUPPORTS).float(), numbers * batch.attention_mask, batch, logits.mask)
    return ReadingTargets(
        answers=inside.any(-1),
        judged=logits.mask & ~((labels & UNJUDGED) > 0).any(-1),
        starts=inside[..., 1:-1] & ~inside[..., :-2],
        ends=inside[..., 1:-1] & ~inside[..., 2:],
        kinds=batch.class_ids,
        supporting=pad(marked, (0, logits.sentences.shape[-1] - marked.shape[-1])) > 0,
    )


def span_losses(logits: ReadingLogits, targets: ReadingTargets) -> Tensor:
    """Average the cross entropies of the answer's first and last token over the nodes with it [B]; 0 without any."""
    losses = [
        -(scores.log_softmax(-1) * wanted).sum(-1)
        for scores, wanted in ((logits.starts, targets.starts), (logits.ends, targets.ends))
    ]
    answers = targets.answers
    return ((losses[0] + losses[1]) / 2 * answers).sum(-1) / answers.sum(-1).clamp(min=1)


def kind_loss(logits: ReadingLogits, targets: ReadingTargets) -> Tensor:
    """Return the cross entropy of the kind of the answer, a scalar; 0 where none is known."""
    known = (targets.kinds >= 0).sum()
    total = cross_entropy(logits.kinds, targets.kinds, ignore_index=-1, reduction="sum")
    return total / known.clamp(min=1)


def sentence_losses(logits: ReadingLogits, targets: ReadingTargets) -> Tensor:
    """Return the mean binary cross entropy of the sentences of each example [B]; 0 where none is known."""
    wanted = targets.supporting & logits.is_sentence
    losses = binary_cross_entropy_with_logits(logits.sentences, wanted.float(), reduction="none")
    total = (losses * logits.is_sentence).sum((1, 2)) / logits.is_sentence.sum((1, 2)).clamp(min=1)
    return total * wanted.any(-1).any(-1)
