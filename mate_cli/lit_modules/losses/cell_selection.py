"""Losses of selecting cells or other candidates, of which any may be the right one, and of selecting spans.

Those of candidates take scores [B, K], a mask [B, K] that is True where an entry is real, and [B, K] True where one is
right or holds the answer. They return the loss of each example [B]; 0 where nothing is right, of `binary`
where nothing is real.
"""

import torch
from torch.nn.functional import binary_cross_entropy_with_logits


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
