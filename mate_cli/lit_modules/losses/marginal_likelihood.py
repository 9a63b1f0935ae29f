"""Losses over candidates of which any may be the right one."""

import torch


def marginal_likelihood(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Cross entropy towards the model's own belief among the candidates, through which no gradient flows.

    The soft label is q(z) = p(z) / sum of p over the candidates, so the gradient equals that of
    -log sum_{z in candidates} p(z).

    Args:
        logits: scores [B, K].
        mask: True at real entries [B, K].
        candidates: True at entries that hold the answer [B, K].

    Returns:
        The loss of each example [B]; 0 where it has no candidate.

    Source: MATE paper, section 4.1.
    """
    log_probabilities = logits.masked_fill(~mask, -torch.inf).log_softmax(-1)
    among = logits.detach().masked_fill(~(candidates & mask), -torch.inf)
    known = (candidates & mask).any(-1)
    soft_labels = torch.where(known[:, None], among, torch.zeros_like(among)).softmax(-1)
    return _expected(log_probabilities, soft_labels * (candidates & mask))


def hard_em(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Cross entropy towards the candidate that the model likes best (hard expectation-maximisation).

    Args:
        logits: scores [B, K].
        mask: True at real entries [B, K].
        candidates: True at entries that hold the answer [B, K].

    Returns:
        The loss of each example [B]; 0 where it has no candidate.
    """
    log_probabilities = logits.masked_fill(~mask, -torch.inf).log_softmax(-1)
    best = logits.detach().masked_fill(~(candidates & mask), -torch.inf).argmax(-1)
    labels = torch.nn.functional.one_hot(best, logits.shape[-1]).to(logits.dtype)
    return _expected(log_probabilities, labels * (candidates & mask))


def _expected(log_probabilities: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    # A masked entry has log probability -inf and label 0: their product would be NaN, in the backward pass too.
    finite = log_probabilities.masked_fill(labels == 0, 0.0)
    return -(labels * finite).sum(-1)
