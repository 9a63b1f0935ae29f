"""The loss of candidates that are right or wrong each by itself."""

import torch
from torch.nn.functional import binary_cross_entropy_with_logits


def binary(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Binary cross entropy, the mean over the real entries of each example.

    Args:
        logits: scores [B, K].
        mask: True at real entries [B, K].
        candidates: True at entries that hold the answer [B, K].

    Returns:
        The loss of each example [B]; 0 where it has no real entry.

    Source: microsoft/Transformer-XH, `utils.py`, over the nodes of a graph.
    """
    losses = binary_cross_entropy_with_logits(logits, candidates.to(logits.dtype), reduction="none")
    return (losses * mask).sum(-1) / mask.sum(-1).clamp(min=1)
