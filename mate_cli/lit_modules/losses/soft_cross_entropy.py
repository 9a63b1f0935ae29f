"""Cross entropy towards several right candidates, each as right as the others."""

import torch


def soft_cross_entropy(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Cross entropy towards the uniform distribution over the right candidates, with the reference's small terms.

    Args:
        logits: scores [B, K].
        mask: True at real entries [B, K].
        candidates: True at right entries [B, K].

    Returns:
        The loss of each example [B]; 0 where no candidate is right.

    Source: wenhuchen/HybridQA, `train_stage12.py` (1e-6 in the labels, 1e-8 in the logarithm).
    """
    probabilities = logits.masked_fill(~mask, -torch.inf).softmax(-1).masked_fill(~mask, 0.0)
    right = (candidates & mask).to(logits.dtype)
    labels = right / (right.sum(-1, keepdim=True) + 1e-6)
    return -(labels * (probabilities + 1e-8).log()).sum(-1)
