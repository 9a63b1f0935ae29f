"""The definition, computed word for word: scores, mask, softmax, weighted sum."""

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop

from mate_cli.attention.base import AttentionBackend, AttentionPlan, Work
from mate_cli.attention.patterns import all_pairs


class Eager(AttentionBackend):
    """Dense masked attention in the open: slow, for reading and for checking the others.

    Nothing is prepared: the mask is quadratic, and cheaper to make than to move.
    """

    def work(self, plan: AttentionPlan) -> Work:
        """Return all pairs."""
        return Work(all_pairs(plan.pattern, plan.batch))

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend: [P, 3, N, H] to [P, N, H]."""
        probabilities = self.probabilities(qkv, plan, key_bias)
        _, _, value = plan.heads(qkv)
        return plan.pack_heads(drop(probabilities, dropout) @ value)

    def probabilities(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None) -> Tensor:
        """Return how much every query attends to every key: [P, 3, N, H] to [B, N, T, T]."""
        query, key, _ = plan.heads(qkv)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        if key_bias is not None:
            scores = scores + plan.packing.unpack(key_bias)[:, None, None, :]
        return scores.masked_fill(~plan.mask, torch.finfo(scores.dtype).min).softmax(-1)
