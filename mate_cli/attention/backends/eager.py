"""Textbook masked attention: logits, mask, softmax, weighted sum."""

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop

from mate_cli.attention.base import AttentionBackend, AttentionPlan, Work
from mate_cli.attention.patterns import all_pairs


class Eager(AttentionBackend):
    """Dense masked attention in plain PyTorch, the reference implementation of backends.

    The backend is slow, and serves reading and testing. Nothing is prepared in data workers: the mask is quadratic, and
    cheaper to compute than to transfer.
    """

    def count_operations(self, plan: AttentionPlan) -> Work:
        """Count T^2 query-key pairs per head and example, padding included."""
        return Work(all_pairs(plan.pattern, plan.batch))

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Map queries, keys and values of P tokens, [P, 3, N, H], to attention outputs [P, N, H].

        See `Attention.forward`.
        """
        probabilities = self.probabilities(qkv, plan, key_bias)
        _, _, value = plan.heads(qkv)
        return plan.pack_heads(drop(probabilities, dropout) @ value)

    def probabilities(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None) -> Tensor:
        """Compute the attention weights of every query and key, before dropout.

        Args:
            qkv: query, key and value vectors of every token, [P, 3, N, H].
            plan: attention plan of this batch.
            key_bias: bias added to the scaled logits of every key, [P]. None: no bias.

        Returns:
            Attention weights [B, N, T, T].
        """
        query, key, _ = plan.heads(qkv)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        if key_bias is not None:
            scores = scores + plan.packing.unpack(key_bias)[:, None, None, :]
        return scores.masked_fill(~plan.mask, torch.finfo(scores.dtype).min).softmax(-1)
