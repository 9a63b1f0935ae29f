"""Losses over candidates of which any may be the right one, over spans, over texts that are read, and over actions.

Those of candidates take scores [B, K], a mask [B, K] that is True where an entry is real, and [B, K] True where one is
right or holds the answer. They return the loss of each example [B]; 0 where nothing is right, of `binary`
where nothing is real.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, pad

from mate_cli.papers.dt_fixup.models.sql_head import ScoredSteps
from mate_cli.papers.transformer_xh.models.evidence_heads import ReadingLogits, group_by_node, sentence_sums
from mate_cli.papers.transformer_xh.serializer import HAS_ANSWER, SUPPORTS, UNJUDGED
from mate_cli.tokenization.layout import TableBatch


def marginal_likelihood(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy towards the model's own belief among the candidates, through which no gradient flows.

    The soft label is q(z) = p(z) / sum of p over the candidates, so the gradient equals that of
    -log sum_{z in candidates} p(z).

    Source: MATE paper, section 4.1.
    """
    log_probabilities = logits.masked_fill(~mask, -torch.inf).log_softmax(-1)
    among = logits.detach().masked_fill(~(candidates & mask), -torch.inf)
    known = (candidates & mask).any(-1)
    soft_labels = torch.where(known[:, None], among, torch.zeros_like(among)).softmax(-1)
    return _expected(log_probabilities, soft_labels * (candidates & mask))


def hard_em(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy towards the candidate that the model likes best (hard expectation-maximisation)."""
    log_probabilities = logits.masked_fill(~mask, -torch.inf).log_softmax(-1)
    best = logits.detach().masked_fill(~(candidates & mask), -torch.inf).argmax(-1)
    labels = torch.nn.functional.one_hot(best, logits.shape[-1]).to(logits.dtype)
    return _expected(log_probabilities, labels * (candidates & mask))


def binary(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return the binary cross entropy, the mean over the real entries of each example.

    Source: microsoft/Transformer-XH, `utils.py`, over the nodes of a graph.
    """
    losses = binary_cross_entropy_with_logits(logits, candidates.to(logits.dtype), reduction="none")
    return (losses * mask).sum(-1) / mask.sum(-1).clamp(min=1)


def soft_cross_entropy(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy towards the uniform distribution of right candidates, with the reference's small terms.

    Source: wenhuchen/HybridQA, `train_stage12.py` (1e-6 in the labels, 1e-8 in the logarithm).
    """
    probabilities = logits.masked_fill(~mask, -torch.inf).softmax(-1).masked_fill(~mask, 0.0)
    right = (candidates & mask).to(logits.dtype)
    labels = right / (right.sum(-1, keepdim=True) + 1e-6)
    return -(labels * (probabilities + 1e-8).log()).sum(-1)


def _expected(log_probabilities: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    # A masked entry has log probability -inf and label 0: their product would be NaN, in the backward pass too.
    finite = log_probabilities.masked_fill(labels == 0, 0.0)
    return -(labels * finite).sum(-1)


def correct_spans(label_ids: torch.Tensor, max_length: int) -> torch.Tensor:
    """Mark the spans that start where a run of labelled tokens starts and end where one ends.

    Args:
        label_ids: 1 on the tokens of the answer [B, T].
        max_length: L, the most tokens of a span.

    Returns:
        Bool [B, T, L], axis L being the length minus one; a run of more than L tokens has no correct span.
    """
    labels = torch.nn.functional.pad(label_ids.bool(), (1, 1))
    starts = labels[:, 1:-1] & ~labels[:, :-2]
    ends = labels[:, 1:-1] & ~labels[:, 2:]
    ends_after = torch.nn.functional.pad(ends, (0, max_length - 1)).unfold(1, max_length, 1)
    return starts[..., None] & ends_after


def span_loss(logits: torch.Tensor, label_ids: torch.Tensor) -> torch.Tensor:
    """Return the negative log likelihood of the correct spans among all spans.

    Args:
        logits: scores of every span [B, T, L]; forbidden spans are very negative.
        label_ids: 1 on the tokens of the answer [B, T].

    Returns:
        The loss of each example [B]; 0 where it has no correct span.

    Source: google-research/tapas, `utils/span_prediction_utils.py`, mode "span".
    """
    log_probabilities = logits.flatten(1).log_softmax(-1)
    correct = correct_spans(label_ids, logits.shape[-1]).flatten(1)
    return -log_probabilities.masked_fill(~correct, 0.0).sum(-1)


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
    numbers = torch.zeros_like(batch.row_ids) if batch.sentence_ids is None else batch.sentence_ids
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


def derivation_loss(scored: ScoredSteps, smoothing: float) -> Tensor:
    """Return the negative logarithm of the probability of each derivation, [B].

    Args:
        scored: steps with the scores of all actions.
        smoothing: the share of a column's target that all columns of the schema share.

    Source: Xu et al. 2021 (DT-Fixup), appendix C.5, and the released code.
    """
    steps, scores, columns = scored
    rules, chosen = _of(scores.rules, steps.rules), _of(scores.columns, steps.columns)
    count = columns.sum(1, keepdim=True)
    shared = scores.columns.masked_fill(~columns[:, None], 0.0).sum(-1) / count
    smoothed = (1 - smoothing) * chosen + smoothing * shared
    found: Tensor = rules * (steps.rules >= 0) + smoothed * (steps.columns >= 0)
    return -found.sum(1)


def _of(scores: Tensor, actions: Tensor) -> Tensor:
    """Return the scores [B, A, S] of actions [B, A]; of those that are -1, of any one that is there."""
    return scores.gather(-1, actions.clamp(min=0).unsqueeze(-1)).squeeze(-1)
