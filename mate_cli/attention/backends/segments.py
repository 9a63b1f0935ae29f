"""Exact row and column attention without a dense mask: every row and column is a small attention of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mate_cli.attention.backends.sdpa import Sdpa, additive_mask, attention_dtype
from mate_cli.attention.base import AttentionPattern, SegmentedPattern
from mate_cli.attention.patterns.full import Full
from mate_cli.attention.plan import AttentionPlan
from mate_cli.attention.segment_tables import Routing, SegmentTables, build_segment_tables
from mate_cli.errors import ConfigError


class Segments:
    """Gathers every row and column with the global tokens, attends within, and puts the results back.

    Costs T * (G + mean segment) instead of T * T, with the same numbers. The full pattern is one segment, which
    the fused dense kernel computes.
    """

    def supports(self, pattern: AttentionPattern) -> None:
        """Accept patterns made of segments, and the full one.

        Raises:
            ConfigError: the pattern is neither.
        """
        if not isinstance(pattern, (Full, SegmentedPattern)):
            name = type(pattern).__name__
            raise ConfigError(f"segments cannot compute {name}", where="attention", remedy="Use attention=sdpa")

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
        if isinstance(plan.pattern, Full):
            return Sdpa().forward(query, key, value, plan, key_bias, dropout)
        tables = plan.derive("segments", build_segment_tables)
        batch, heads, tokens, size = query.shape
        dtype = _kernel_dtype(query)
        queries = _gather(_rows(query.to(dtype), tables.blocks), tables.queries)
        keys, values = (_gather(_rows(x.to(dtype), tables.blocks), tables.keys) for x in (key, value))
        masks = _masks(plan, tables, key_bias, dtype)
        classes = zip(queries, keys, values, masks, tables.classes, strict=True)
        with torch.autocast(query.device.type, enabled=False):
            outputs = [_attend(q, k, v, mask, c.tasks, size, dropout) for q, k, v, mask, c in classes]
        slots = torch.cat(outputs) if outputs else _rows(query, tables.blocks)[:0]
        output = _route(slots, tables.queries.transposed)
        return output.view(batch, tokens, heads, size).transpose(1, 2).to(attention_dtype(query))


def _kernel_dtype(query: Tensor) -> torch.dtype:
    """On a CPU, training attends in float32: the fused kernel's backward pass takes twice as long in bfloat16."""
    dtype = attention_dtype(query)
    narrow = torch.finfo(dtype).bits < 32
    return torch.float32 if narrow and query.device.type == "cpu" and torch.is_grad_enabled() else dtype


class _Route(torch.autograd.Function):
    """Rows to slots by one fused sum of rows; the gradient goes back the same way, without atomic adds."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, routing: Routing) -> Tensor:  # noqa: ANN401 - torch's own context
        ctx.routing = routing
        return _sum_rows(table, routing.rows, routing.slot_offsets)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's own context
        return _sum_rows(gradient.contiguous(), ctx.routing.slots, ctx.routing.row_offsets), None


def _sum_rows(table: Tensor, rows: Tensor, offsets: Tensor) -> Tensor:
    """Output i is the sum of the rows between offsets i and i + 1; zero when there are none."""
    if not len(rows):
        return table.new_zeros(len(offsets) - 1, table.shape[1])
    return torch.embedding_bag(table, rows, offsets, include_last_offset=True)[0]


def _rows(projection: Tensor, blocks: int) -> Tensor:
    """[B, N, T, H] as a table of (example, token, block of heads), [B * T * V, N / V * H]."""
    batch, heads, tokens, size = projection.shape
    return projection.transpose(1, 2).reshape(batch * tokens * blocks, heads // blocks * size)


def _route(table: Tensor, routing: Routing) -> Tensor:
    return _Route.apply(table, routing)  # type: ignore[no-untyped-call]


def _gather(table: Tensor, routing: Routing) -> tuple[Tensor, ...]:
    """The slots of each class, split once so that the backward pass joins their gradients once."""
    return torch.split(_route(table, routing), routing.class_sizes) if routing.class_sizes else ()


def _masks(
    plan: AttentionPlan, tables: SegmentTables, key_bias: Tensor | None, dtype: torch.dtype
) -> list[Tensor | None]:
    """One additive mask [S, 1, 1, keys] per class, None where no slot is empty."""
    masks = plan.derive(("segments", dtype), lambda _: [_additive(c.real_keys, dtype) for c in tables.classes])
    if key_bias is None:
        return masks
    rows = key_bias.to(dtype)[:, :, None].expand(-1, -1, tables.blocks).reshape(-1, 1)
    biases = _gather(rows, tables.keys)
    biased = [bias.view(c.tasks, 1, 1, c.keys) for bias, c in zip(biases, tables.classes, strict=True)]
    return [bias if mask is None else bias + mask for bias, mask in zip(biased, masks, strict=True)]


def _additive(real_keys: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if real_keys is None else additive_mask(real_keys, dtype)


def _attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, tasks: int, size: int, dropout: float
) -> Tensor:
    """All tasks of a class in one call: slots in, slots out, [S * queries, N / V * H]."""
    q, k, v = (x.view(tasks, -1, x.shape[1] // size, size).transpose(1, 2) for x in (query, key, value))
    output = scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    return output.transpose(1, 2).reshape(query.shape)
