"""The definition, computed word for word: scores, mask, softmax, weighted sum."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop

from mate_cli.attention.base import AttentionPattern
from mate_cli.attention.plan import AttentionPlan


class Eager:
    """Dense masked attention in the open: slow, for reading and for checking the others."""

    def supports(self, pattern: AttentionPattern) -> None:
        """Accept every pattern."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        plan: AttentionPlan,
        key_bias: Tensor | None = None,
        dropout: float = 0.0,
    ) -> Tensor:
        """Attend: query, key, value [B, N, T, H] to [B, N, T, H]."""
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        if key_bias is not None:
            scores = scores + key_bias[:, None, None, :]
        scores = scores.masked_fill(~plan.mask, torch.finfo(scores.dtype).min)
        return drop(scores.softmax(-1), dropout) @ value
