"""Linear attention of the MATE paper, in buckets of sorted tokens.

Tokens are sorted by row or column and split into buckets, and attend to neighboring buckets.

Source: MATE paper, section 3.1; google-research/tapas, `attention_utils.create_bucketed_attention_layer`. As in that
implementation, bucket neighbors are cyclic, and with fewer than three buckets the same keys are counted repeatedly.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from pydantic import PositiveInt
from torch import Tensor
from torch.nn.functional import pad as pad_end
from torch.nn.functional import scaled_dot_product_attention

from mate_cli.attention.backends.sdpa import additive_mask, split_heads
from mate_cli.attention.base import AttentionPlan, SegmentBackend, Work, attention_dtype
from mate_cli.attention.patterns import AttentionPattern, Full, SegmentedPattern
from mate_cli.errors import ConfigError

MINIMUM_BUCKETS = 3
"""Minimum number of buckets. With fewer, the next and the previous bucket are the same."""


@dataclass(frozen=True)
class _View:
    """Sorted tokens and attention masks of one group of heads.

    T' is the number of tokens after padding.

    Args:
        order: indices that sort the tokens, Int64 [B, T'].
        rank: position of each token after sorting, the inverse of `order`, Int64 [B, T'].
        first_mask: additive mask from queries of the first section to all keys, [B, 1, first, T'].
        window_mask: additive mask from queries of a bucket to the keys of its window,
            [B * buckets, 1, bucket, first + 3 * bucket].
    """

    order: Tensor
    rank: Tensor
    first_mask: Tensor
    window_mask: Tensor


class Bucketed(SegmentBackend):
    """Approximate row and column attention: a query attends to keys in three buckets only.

    Args:
        first_section: number of sorted tokens to which every query may attend (the question, if it fits).
        bucket_size: number of tokens in a bucket. A query attends to its bucket, the next and the previous bucket.
        pad: append masked tokens until the buckets are full. False: raise an error for a length that does not fill
            them, as google-research/tapas does.
    """

    exact: ClassVar[bool] = False

    def __init__(self, first_section: PositiveInt = 116, bucket_size: PositiveInt = 42, *, pad: bool = True) -> None:
        self.first_section, self.bucket_size, self.pad = first_section, bucket_size, pad

    def supports(self, pattern: AttentionPattern, dropout: float = 0.0) -> None:
        """Raise `ConfigError` if the pattern has no segments or only one.

        Args:
            pattern: attention pattern of a layer.
            dropout: dropout probability of attention weights in training.

        Raises:
            ConfigError: the pattern has no segments, or a single one (`Full`).
        """
        super().supports(pattern, dropout)
        if isinstance(pattern, Full):
            raise ConfigError("bucketed cannot compute Full", where="attention", remedy="Use attention=sdpa")

    def prepare(self, plan: AttentionPlan) -> None:
        """Compute and cache the sorting order of tokens and the masks of the bucket windows."""
        self._views(plan)

    def count_operations(self, plan: AttentionPlan) -> Work:
        """Count the query-key pairs that bucketed attention computes.

        The first section attends to all tokens, and other tokens to the first section and three buckets.
        """
        examples, tokens = plan.packing.shape
        padded, window = tokens + self.padding(tokens), self.first_section + 3 * self.bucket_size
        pairs = self.first_section * padded + (padded - self.first_section) * window
        return Work(plan.pattern.num_heads * examples * pairs)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Compute bucketed attention of P tokens: [P, 3, N, H] to [P, N, H].

        Arguments: see `Attention.forward`.

        Raises:
            ConfigError: the tokens do not fill the buckets and `pad` is False.
        """
        dtype, tokens = attention_dtype(qkv), plan.packing.shape[1]
        padding = self.padding(tokens)
        bias = None if key_bias is None else pad_end(plan.packing.unpack(key_bias).to(dtype), (0, padding))
        padded = (pad_end(x.to(dtype), (0, 0, 0, padding)) for x in plan.heads(qkv))
        groups = zip(*(split_heads(x, plan.pattern) for x in padded), self._views(plan), strict=True)
        outputs = [self._attend(q, k, v, view, bias, dropout)[:, :, :tokens] for q, k, v, view in groups]
        return plan.pack_heads(torch.cat(outputs, 1))

    def padding(self, tokens: int) -> int:
        """Compute the number of masked tokens to append to an input of `tokens` tokens.

        Raises:
            ConfigError: padding is needed and `pad` is False.
        """
        first, bucket = self.first_section, self.bucket_size
        if not self.pad:
            if tokens < first or (tokens - first) % bucket:
                shorter = max(first, tokens - (tokens - first) % bucket)
                problem = f"{tokens} tokens cannot be divided into buckets of {bucket} after the first {first}"
                hint = f"Use {shorter} or {shorter + bucket} tokens, or set attention.pad=true"
                raise ConfigError(problem, where="attention", remedy=hint)
            return 0
        buckets = max(MINIMUM_BUCKETS, -(-(tokens - first) // bucket))
        return first + buckets * bucket - tokens

    def _views(self, plan: AttentionPlan) -> tuple[_View, ...]:
        return plan.derive(("bucketed", self.first_section, self.bucket_size), self._build_views)

    def _build_views(self, plan: AttentionPlan) -> tuple[_View, ...]:
        assert isinstance(plan.pattern, SegmentedPattern)
        padding = self.padding(plan.batch.input_ids.shape[1])
        is_global, is_real = (
            pad_end(x, (0, padding)) for x in (plan.pattern.global_tokens(plan.batch), plan.batch.attention_mask == 1)
        )
        ids = pad_end(plan.pattern.segment_ids(plan.batch), (0, padding))
        return tuple(self._build_view(group, is_global, is_real) for group in ids)

    def _build_view(self, ids: Tensor, is_global: Tensor, is_real: Tensor) -> _View:
        """Sort the tokens of each example by segment id, and compute their attention masks.

        Padding is last.
        """
        first = self.first_section
        order = torch.where(is_real, ids, ids.max() + 1).argsort(dim=1, stable=True)
        ids, is_global, is_real = (x.gather(1, order) for x in (ids, is_global, is_real))

        def allowed_pairs(queries: slice, keys: slice) -> Tensor:
            same_segment = ids[:, queries, None] == ids[:, None, keys]
            return (same_segment | is_global[:, queries, None] | is_global[:, None, keys]) & is_real[:, None, keys]

        window = [self._windows(x[:, None, :, None])[..., 0, :, 0] for x in (ids, is_global, is_real)]
        bucket = [x[:, first:].reshape(-1, self.bucket_size) for x in (ids, is_global)]
        same_segment = bucket[0][:, :, None] == window[0][:, None, :]
        mask = (same_segment | bucket[1][:, :, None] | window[1][:, None, :]) & window[2][:, None, :]
        first_mask = additive_mask(allowed_pairs(slice(first), slice(None)), torch.float32)
        return _View(order, order.argsort(dim=1), first_mask[:, None], additive_mask(mask, torch.float32)[:, None])

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, view: _View, bias: Tensor | None, dropout: float
    ) -> Tensor:
        """Compute the attention of one group of n heads, [B, n, T', H]."""
        batch, heads, _, size = query.shape
        first = self.first_section
        query, key, value = (_reorder(x, view.order) for x in (query, key, value))
        first_mask, window_mask = (mask.to(query.dtype) for mask in (view.first_mask, view.window_mask))
        if bias is not None:
            bias = bias.gather(1, view.order)[:, None, :, None]
            first_mask = first_mask + bias.transpose(-1, -2)
            window_mask = window_mask + self._windows(bias).transpose(-1, -2)
        head = scaled_dot_product_attention(query[:, :, :first], key, value, first_mask, dropout)
        tail = scaled_dot_product_attention(
            self._buckets(query), self._windows(key), self._windows(value), window_mask, dropout
        )
        tail = tail.view(batch, -1, heads, self.bucket_size, size).transpose(1, 2).reshape(batch, heads, -1, size)
        return _reorder(torch.cat([head, tail], dim=2), view.rank)

    def _buckets(self, x: Tensor) -> Tensor:
        """Split the tokens after the first section into buckets.

        [B, n, T', H] becomes [B * buckets, n, bucket, H].
        """
        batch, heads, _, size = x.shape
        buckets = x[:, :, self.first_section :].reshape(batch, heads, -1, self.bucket_size, size)
        return buckets.transpose(1, 2).reshape(-1, heads, self.bucket_size, size)

    def _windows(self, x: Tensor) -> Tensor:
        """Gather the keys or values that each bucket of queries attends to.

        These are those of the first section, of the bucket, and of the next and the previous bucket. The shape is [B *
        buckets, n, first + 3 * bucket, H].
        """
        batch, heads, _, size = x.shape
        buckets = self._buckets(x).view(batch, -1, heads, self.bucket_size, size)
        first = x[:, None, :, : self.first_section].expand(-1, buckets.shape[1], -1, -1, -1)
        window = torch.cat([first, buckets, buckets.roll(-1, dims=1), buckets.roll(1, dims=1)], dim=3)
        return window.flatten(0, 1)


def _reorder(x: Tensor, order: Tensor) -> Tensor:
    return x.gather(2, order[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3]))
