"""Exact row and column attention without a dense mask.

Every row and column is a separate small attention.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mate_cli.attention.backends.sdpa import Sdpa, additive_mask
from mate_cli.attention.base import AttentionPlan, SegmentBackend, attention_dtype
from mate_cli.attention.patterns import Full
from mate_cli.attention.segment_tasks import SegmentTables, TaskClass, segment_tables

Context = Any
"""The context that torch passes to the forward and backward pass of an autograd function."""

Masks = Sequence[Tensor | None]
"""Additive mask of each task class, [S, 1, 1, keys]. None if no key slot of the class is empty."""


class Segments(SegmentBackend):
    """Computes attention within every row and column, gathered with the global tokens.

    Computes T * (G + mean segment length) pairs instead of T * T, with G global tokens and the same result. In the full
    pattern every example is one segment, so examples of different lengths need no padding.
    """

    def prepare(self, plan: AttentionPlan) -> None:
        """Compute the index tables of the segments of a batch, and cache them in its plan."""
        segment_tables(plan)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Map queries, keys and values [P, 3, N, H] to attended values [P, N, H]. See `Attention.forward`."""
        if isinstance(plan.pattern, Full) and plan.packing.indices is None:
            return Sdpa().forward(qkv, plan, key_bias, dropout)
        dtype = attention_dtype(qkv)
        if not len(qkv):
            return qkv[:, 0].to(dtype)
        tables, qkv = segment_tables(plan), qkv.to(_kernel_dtype(qkv)).contiguous()
        key_bias = None if key_bias is None else key_bias.to(qkv.dtype)
        masks = plan.derive(
            ("segments", qkv.dtype), lambda _: tuple(_mask(task_class, qkv.dtype) for task_class in tables.classes)
        )
        with torch.autocast(qkv.device.type, enabled=False):
            return _attend(qkv, tables, masks, key_bias, dropout).to(dtype)


def _kernel_dtype(qkv: Tensor) -> torch.dtype:
    """Return the dtype in which the fused kernel computes attention.

    Training on a CPU uses float32, because the backward pass of the kernel takes twice the time in bfloat16.
    """
    dtype = attention_dtype(qkv)
    narrow = torch.finfo(dtype).bits < 32
    return torch.float32 if narrow and qkv.device.type == "cpu" and torch.is_grad_enabled() else dtype


def _mask(task_class: TaskClass, dtype: torch.dtype) -> Tensor | None:
    """Return the additive mask of a task class, [S, 1, 1, keys]. None if no key slot is empty."""
    return None if task_class.empty_keys is None else additive_mask(~task_class.empty_keys, dtype)[:, None, None]


def _attend(qkv: Tensor, tables: SegmentTables, masks: Masks, key_bias: Tensor | None, dropout: float) -> Tensor:
    """Compute the attention of segment tokens to their segment, and of global tokens to their whole example."""
    if key_bias is not None:
        masks = _biased(masks, tables, _GatherAll.apply(_bias_table(key_bias, tables), tables))  # type: ignore[no-untyped-call]
    gathered = _GatherAll.apply(_table(qkv, tables), tables)  # type: ignore[no-untyped-call]
    slots = [
        _join_heads(scaled_dot_product_attention(*_class_heads(task_class, x, qkv), mask, dropout))
        for task_class, x, mask in zip(tables.classes, gathered, masks, strict=True)
    ]
    outputs = _Assemble.apply(tables, qkv, *slots)  # type: ignore[no-untyped-call]
    examples = torch.split(qkv, [end - start for start, end in tables.spans])
    global_positions, global_outputs = [], []
    for positions, span, example in zip(tables.globals, tables.spans, examples, strict=True):
        if len(positions):
            bias = None if key_bias is None else key_bias[None, None, None, slice(*span)]
            output = scaled_dot_product_attention(*_global_heads(example, positions - span[0]), bias, dropout)
            global_positions.append(positions)
            global_outputs.append(output[0].transpose(0, 1))
    return (
        outputs.index_copy(0, torch.cat(global_positions), torch.cat(global_outputs)) if global_positions else outputs
    )


class _GatherAll(torch.autograd.Function):
    """Gathers the table rows of the slots of all task classes, one tensor per class.

    The backward pass sums the gradients of all classes once, without atomic adds.
    """

    @staticmethod
    def forward(ctx: Context, table: Tensor, tables: SegmentTables) -> tuple[Tensor, ...]:
        ctx.tables = tables
        return tuple(task_class.projections(table) for task_class in tables.classes)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.tables.gradients(torch.cat(gradients)), None


class _Assemble(torch.autograd.Function):
    """Sorts the attended values of all query slots by token, [P, N, H]. The rows of global tokens are not valid yet."""

    @staticmethod
    def forward(ctx: Context, tables: SegmentTables, template: Tensor, *slots: Tensor) -> Tensor:
        ctx.tables, shape = tables, (len(template), *template.shape[2:])
        return torch.cat(slots).index_select(0, tables.output_slots).view(shape) if slots else template.new_zeros(shape)

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> tuple[None, ...]:
        tables = ctx.tables
        table = gradient.reshape(tables.output_slots.numel(), -1)
        return None, None, *(task_class.outputs(table) for task_class in tables.classes)


def _table(qkv: Tensor, tables: SegmentTables) -> Tensor:
    """View [P, 3, N, H] as the table of projections, [P * 3 * V, N / V * H]."""
    return qkv.view(3 * tables.output_slots.numel(), -1)


def _bias_table(key_bias: Tensor, tables: SegmentTables) -> Tensor:
    """Expand a bias [P] to a table of one column with the rows of the table of projections."""
    return key_bias[:, None].expand(-1, 3 * tables.blocks).reshape(-1, 1)


def _biased(masks: Masks, tables: SegmentTables, slots: Sequence[Tensor]) -> Masks:
    """Add the bias in the key slots of every class to the masks."""
    keys = [
        torch.split(x, task_class.sizes)[1].view(task_class.tasks, 1, 1, task_class.keys)
        for task_class, x in zip(tables.classes, slots, strict=True)
    ]
    return tuple(bias if mask is None else bias + mask for bias, mask in zip(keys, masks, strict=True))


def _class_heads(task_class: TaskClass, slots: Tensor, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Split the slots of a class into queries, keys and values, each [S, N / V, slots, H]."""
    shape = (task_class.tasks, -1, slots.shape[1] // qkv.shape[-1], qkv.shape[-1])
    query, key, value = (x.view(shape).transpose(1, 2) for x in torch.split(slots, task_class.sizes))
    return query, key, value


def _global_heads(example: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the queries of the G global tokens of an example [1, N, G, H], and keys and values of its L tokens."""
    query, key, value = example.unbind(1)
    if len(positions) != len(query):
        query = query[positions]
    return query.transpose(0, 1)[None], key.transpose(0, 1)[None], value.transpose(0, 1)[None]


def _join_heads(heads: Tensor) -> Tensor:
    """Merge heads into rows of slots: [S, N / V, slots, H] to [S * slots, N / V * H]."""
    return heads.transpose(1, 2).flatten(2).flatten(0, 1)
