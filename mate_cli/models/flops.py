"""Work counted, not timed: (query, key) pairs, and the floating-point operations that they stand for.

The convention: a pair costs 4 * H operations per head in the forward pass (a multiply and an add for its score and
for its share of the value), and 2.5 times that in the backward pass, in which fused kernels compute the score again.
Softmax, gathers and padding inside kernels are not counted: they are what keeps a variant from the peak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mate_cli.attention.backends.auto import Auto
from mate_cli.attention.backends.bucketed import Bucketed
from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.base import AttentionBackend, AttentionPattern, SegmentedPattern
from mate_cli.attention.plan import AttentionPlan
from mate_cli.models.layers.encoder import SelfAttention
from mate_cli.models.layers.global_local import GlobalLocal, find_links
from mate_cli.models.linformer import MixedAttention

if TYPE_CHECKING:
    from torch import Tensor

    from mate_cli.models.sizes import EncoderSize
    from mate_cli.models.table_encoder import TableEncoder
    from mate_cli.tokenization.layout import TableBatch

BACKWARD = 2.5
"""Operations of attention's backward pass, in forward passes."""
DENSE_BACKWARD = 2.0
"""The same of a dense layer."""


def encoder_flops(encoder: TableEncoder, batch: TableBatch, *, backward: bool) -> float:
    """Operations of a network on a batch: its dense layers on real tokens, and attention as each layer computes it."""
    head_size, total, tokens = encoder.size.head_size, 0.0, int(batch.attention_mask.sum())
    for backend in (module.backend for module in encoder.modules() if isinstance(module, SelfAttention)):
        pattern = getattr(backend, "pattern", encoder.pattern)  # that of these layers alone
        total += backend_flops(getattr(backend, "backend", backend), pattern, batch, head_size, backward=backward)
    if isinstance(backend, GlobalLocal):
        tokens += _slots(encoder.pattern, batch) * len(batch.input_ids)
    return dense_flops(encoder.size, tokens, backward=backward) + total


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


def computed_pairs(backend: AttentionBackend, pattern: AttentionPattern, batch: TableBatch) -> int:
    """Pairs that a backend's method computes: all, those in its buckets, with its slots, or just the needed ones."""
    examples, tokens = batch.input_ids.shape
    if isinstance(backend, Auto):
        backend = backend.chosen_for(AttentionPlan(pattern, batch))
    if isinstance(backend, Bucketed):
        padded, first = tokens + backend.padding(tokens), backend.first_section
        window = first + 3 * backend.bucket_size
        return pattern.num_heads * examples * (first * padded + (padded - first) * window)
    if isinstance(backend, MixedAttention):
        return pattern.num_heads * examples * tokens * len(backend.mixer.keys)
    if isinstance(backend, GlobalLocal):
        slots = _slots(pattern, batch)
        with_slots = slots * (2 * int(batch.attention_mask.sum()) + slots * examples)
        return needed_pairs(pattern, batch) + pattern.num_heads * with_slots
    dense = isinstance(backend, (Eager, Sdpa))
    return all_pairs(pattern, batch) if dense else needed_pairs(pattern, batch)


def _slots(pattern: AttentionPattern, batch: TableBatch) -> int:
    """Slots of TableETC's memory that a batch uses."""
    return len(find_links(AttentionPlan(pattern, batch)).slots)


def backend_flops(
    backend: AttentionBackend, pattern: AttentionPattern, batch: TableBatch, head_size: int, *, backward: bool
) -> float:
    """Operations of a backend on a batch; Linformer's mixing of keys and values, a dense layer, is part of it."""
    pairs = computed_pairs(backend, pattern, batch)
    mixing = 4.0 * head_size * pairs * (1 + DENSE_BACKWARD * backward) if isinstance(backend, MixedAttention) else 0.0
    return attention_flops(pairs, head_size, backward=backward) + mixing


def attention_flops(pairs: int, head_size: int, *, backward: bool) -> float:
    """Operations of so many pairs; see the convention above."""
    return 4.0 * head_size * pairs * (1 + BACKWARD * backward)


def dense_flops(size: EncoderSize, tokens: int, *, backward: bool) -> float:
    """Operations of the dense layers of an encoder (projections and feed-forward) on so many tokens."""
    weights = 4 * size.hidden_size**2 + 2 * size.hidden_size * size.intermediate_size
    return 2.0 * weights * size.num_layers * tokens * (1 + DENSE_BACKWARD * backward)
