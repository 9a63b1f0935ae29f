"""Attention as it is defined, in float64, a slice of the queries at a time so that memory stays bounded."""

import torch
from torch import Tensor

from mate_cli.attention.backends.sdpa import split_heads
from mate_cli.attention.plan import AttentionPlan

SLICE = 256
"""Queries at a time."""


@torch.no_grad()
def attend_by_definition(qkv: Tensor, plan: AttentionPlan) -> Tensor:
    """The exact result: [P, 3, N, H] to Float64 [P, N, H]."""
    masks = plan.pattern.group_masks(plan.batch).unbind(1)
    heads = [split_heads(x, plan.pattern) for x in plan.heads(qkv.double())]
    outputs = []
    for mask, query, key, value in zip(masks, *heads, strict=True):
        slices = zip(torch.split(query, SLICE, dim=2), torch.split(mask, SLICE, dim=1), strict=True)
        outputs.append(torch.cat([_attend(q, key, value, seen) for q, seen in slices], dim=2))
    return plan.pack_heads(torch.cat(outputs, dim=1))


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Some queries [B, n, t, H] of one group of heads, with their mask [B, t, T]."""
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    return scores.masked_fill_(~mask[:, None], float("-inf")).softmax(-1) @ value
