"""Pairs of queries and keys, counted."""

import torch
from torch import Tensor

from mate_cli.attention.pattern import AttentionPattern, SegmentedPattern
from mate_cli.tokenization.layout import TableBatch


def all_pairs(pattern: AttentionPattern, batch: TableBatch) -> int:
    """Pairs of dense attention, padding included, over all heads."""
    examples, tokens = batch.input_ids.shape
    return pattern.num_heads * examples * tokens**2


def needed_pairs(pattern: AttentionPattern, batch: TableBatch) -> int:
    """Pairs of real tokens that the pattern lets through, over all heads: no exact method can do with fewer."""
    if not isinstance(pattern, SegmentedPattern):
        real = batch.attention_mask == 1
        masks = pattern.group_masks(batch) & real[:, None, :, None]
        heads = torch.tensor(pattern.head_groups, device=masks.device)
        return int((masks.sum((0, 2, 3)) * heads).sum())
    groups = zip(pattern.head_groups, pattern.segment_ids(batch), strict=True)
    real, is_global = batch.attention_mask == 1, pattern.global_tokens(batch)
    return sum(
        heads * _pairs_of(*example) for heads, ids in groups for example in zip(ids, real, is_global, strict=True)
    )


def _pairs_of(ids: Tensor, real: Tensor, is_global: Tensor) -> int:
    """One example and head: globals see and are seen by all, the others see their segment."""
    total, seen_by_all = int(real.sum()), int((is_global & real).sum())
    segments = torch.unique(ids[real & ~is_global], return_counts=True)[1]
    return seen_by_all * (2 * total - seen_by_all) + int((segments**2).sum())
