"""Exact row and column attention without a dense mask: every row and column is a small attention of its own."""

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
"""The context that torch hands to the two passes of an autograd function."""

Masks = Sequence[Tensor | None]
"""Added to the scores of each class, [S, 1, 1, keys]; None where no slot is empty."""

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class Segments(SegmentBackend):
    """Gathers every row and column with the global tokens, attends within, and puts the results back.

    Costs T * (G + mean segment) instead of T * T, with the same numbers. In the full pattern every example is one
    segment, so that examples of different lengths need no padding.
    """

    def prepare(self, plan: AttentionPlan) -> None:
        """Build the index tables."""
        segment_tables(plan)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend: [P, 3, N, H] to [P, N, H]."""
        if isinstance(plan.pattern, Full) and plan.packing.places is None:
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
            if qkv.device.type != "cpu" or dropout or (key_bias is not None and key_bias.requires_grad):
                output = _attend(qkv, tables, masks, key_bias, dropout)
            else:
                output = _Fused.apply(qkv, tables, masks, key_bias)  # type: ignore[no-untyped-call]
        return output.to(dtype)


def _kernel_dtype(qkv: Tensor) -> torch.dtype:
    """Choose float32 for training on a CPU: the fused kernel's backward pass takes twice as long in bfloat16."""
    dtype = attention_dtype(qkv)
    narrow = torch.finfo(dtype).bits < 32
    return torch.float32 if narrow and qkv.device.type == "cpu" and torch.is_grad_enabled() else dtype


def _mask(task_class: TaskClass, dtype: torch.dtype) -> Tensor | None:
    """Return what is added to the scores of a class, [S, 1, 1, keys]."""
    return None if task_class.empty_keys is None else additive_mask(~task_class.empty_keys, dtype)[:, None, None]


class _Fused(torch.autograd.Function):
    """All tasks by the fused CPU kernel; keeps projections and outputs, and gathers again in the backward pass."""

    @staticmethod
    def forward(ctx: Context, qkv: Tensor, tables: SegmentTables, masks: Masks, key_bias: Tensor | None) -> Tensor:
        if key_bias is not None:
            bias = _bias_table(key_bias, tables)
            masks = _biased(masks, tables, [task_class.projections(bias) for task_class in tables.classes])
        table, slots, log_sums = _table(qkv, tables), [], []
        for task_class, mask in zip(tables.classes, masks, strict=True):
            output, log_sum = _flash(*_class_heads(task_class, task_class.projections(table), qkv), attn_mask=mask)
            slots.append(_join_heads(output))
            log_sums.append(log_sum)
        outputs = _assemble(slots, tables, qkv)
        for places, span in tables.global_queries():
            output, log_sum = _flash(*_global_heads(qkv, places, span), attn_mask=_span_bias(key_bias, span))
            outputs[places] = output[0].transpose(0, 1)
            log_sums.append(log_sum)
        ctx.tables, ctx.masks, ctx.key_bias = tables, masks, key_bias
        ctx.save_for_backward(qkv, outputs, *log_sums)
        return outputs

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        qkv, outputs, *log_sums = ctx.saved_tensors
        gradient, count = gradient.contiguous(), len(ctx.masks)
        result = _segment_gradients(ctx, qkv, outputs, gradient, log_sums[:count])
        for (places, span), log_sum in zip(ctx.tables.global_queries(), log_sums[count:], strict=True):
            sent, output = (x[places].transpose(0, 1)[None] for x in (gradient, outputs))
            heads, mask = _global_heads(qkv, places, span), _span_bias(ctx.key_bias, span)
            gradients = _flash_backward(sent, *heads, output, log_sum, 0.0, False, attn_mask=mask)
            query, key, value = (x[0].transpose(0, 1) for x in gradients)
            result[places, 0] = query
            result[slice(*span), 1] += key
            result[slice(*span), 2] += value
        return result, None, None, None


def _segment_gradients(
    ctx: Context, qkv: Tensor, outputs: Tensor, gradient: Tensor, log_sums: Sequence[Tensor]
) -> Tensor:
    """Return what the segments give back to the projections, [P, 3, N, H].

    Class after class, so that little is held.
    """
    tables: SegmentTables = ctx.tables
    table, size, begin = _table(qkv, tables), qkv.shape[-1], 0
    received = table.new_empty(sum(sum(task_class.sizes) for task_class in tables.classes), table.shape[1])
    for task_class, mask, log_sum in zip(tables.classes, ctx.masks, log_sums, strict=True):
        asked = (task_class.outputs(x.view(-1, table.shape[1])) for x in (gradient, outputs))
        sent, output = (_split_heads(x, task_class.tasks, size) for x in asked)
        heads = _class_heads(task_class, task_class.projections(table), qkv)
        gradients = _flash_backward(sent, *heads, output, log_sum, 0.0, False, attn_mask=mask)
        for part, slots in zip(gradients, task_class.sizes, strict=True):
            _split_heads(received[begin : begin + slots], task_class.tasks, size).copy_(part)
            begin += slots
    return tables.gradients(received).view(qkv.shape)


def _attend(qkv: Tensor, tables: SegmentTables, masks: Masks, key_bias: Tensor | None, dropout: float) -> Tensor:
    """Return the same through torch's own derivatives: for dropout, for biases that learn, and for GPUs."""
    if key_bias is not None:
        masks = _biased(masks, tables, _GatherAll.apply(_bias_table(key_bias, tables), tables))  # type: ignore[no-untyped-call]
    gathered = _GatherAll.apply(_table(qkv, tables), tables)  # type: ignore[no-untyped-call]
    slots = [
        _join_heads(_sdpa(_class_heads(task_class, x, qkv), mask, dropout))
        for task_class, x, mask in zip(tables.classes, gathered, masks, strict=True)
    ]
    outputs = _Assemble.apply(tables, qkv, *slots)  # type: ignore[no-untyped-call]
    examples = torch.split(qkv, [end - begin for begin, end in tables.spans])
    asking, answers = [], []
    for places, span, example in zip(tables.globals, tables.spans, examples, strict=True):
        if len(places):
            heads = _global_heads(example, places - span[0], (0, len(example)))
            answer = _sdpa(heads, _span_bias(key_bias, span), dropout)
            asking.append(places)
            answers.append(answer[0].transpose(0, 1))
    return outputs.index_copy(0, torch.cat(asking), torch.cat(answers)) if asking else outputs


def _sdpa(heads: tuple[Tensor, ...], mask: Tensor | None, dropout: float) -> Tensor:
    query, key, value = heads
    return scaled_dot_product_attention(query, key, value, mask, dropout)


class _GatherAll(torch.autograd.Function):
    """The slots of all classes; their gradients are summed up once, without atomic adds."""

    @staticmethod
    def forward(ctx: Context, table: Tensor, tables: SegmentTables) -> tuple[Tensor, ...]:
        ctx.tables = tables
        return tuple(task_class.projections(table) for task_class in tables.classes)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.tables.gradients(torch.cat(gradients)), None


class _Assemble(torch.autograd.Function):
    """The outputs of all query slots, put back in the order of tokens."""

    @staticmethod
    def forward(ctx: Context, tables: SegmentTables, like: Tensor, *slots: Tensor) -> Tensor:
        ctx.tables = tables
        return _assemble(slots, tables, like)

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> tuple[None, ...]:
        tables = ctx.tables
        table = gradient.reshape(tables.output_slots.numel(), -1)
        return None, None, *(task_class.outputs(table) for task_class in tables.classes)


def _assemble(slots: Sequence[Tensor], tables: SegmentTables, like: Tensor) -> Tensor:
    """Put query slots of all classes into [P, N, H]; what global tokens get is left open."""
    shape = (len(like), *like.shape[2:])
    return torch.cat(list(slots)).index_select(0, tables.output_slots).view(shape) if slots else like.new_zeros(shape)


def _table(qkv: Tensor, tables: SegmentTables) -> Tensor:
    """View [P, 3, N, H] as the table of projections, [P * 3 * V, N / V * H]."""
    return qkv.view(3 * tables.output_slots.numel(), -1)


def _bias_table(key_bias: Tensor, tables: SegmentTables) -> Tensor:
    """Spread [P] to a table of one column with the rows of the table of projections."""
    return key_bias[:, None].expand(-1, 3 * tables.blocks).reshape(-1, 1)


def _biased(masks: Masks, tables: SegmentTables, slots: Sequence[Tensor]) -> Masks:
    """Return masks with the bias that is in the key slots of every class."""
    keys = [
        torch.split(x, task_class.sizes)[1].view(task_class.tasks, 1, 1, task_class.keys)
        for task_class, x in zip(tables.classes, slots, strict=True)
    ]
    return tuple(bias if mask is None else bias + mask for bias, mask in zip(keys, masks, strict=True))


def _span_bias(key_bias: Tensor | None, span: tuple[int, int]) -> Tensor | None:
    return None if key_bias is None else key_bias[None, None, None, slice(*span)]


def _class_heads(task_class: TaskClass, slots: Tensor, like: Tensor) -> tuple[Tensor, ...]:
    """Return queries, keys and values of a class, each [S, N / V, slots, H]."""
    return tuple(_split_heads(x, task_class.tasks, like.shape[-1]) for x in torch.split(slots, task_class.sizes))


def _global_heads(qkv: Tensor, places: Tensor, span: tuple[int, int]) -> tuple[Tensor, ...]:
    """Return queries of global tokens [1, N, G, H] of an example, keys and values of all its tokens [1, N, L, H]."""
    everything = len(places) == span[1] - span[0]
    query = qkv[slice(*span), 0] if everything else qkv[places, 0]
    return tuple(x.transpose(0, 1)[None] for x in (query, qkv[slice(*span), 1], qkv[slice(*span), 2]))


def _split_heads(slots: Tensor, tasks: int, size: int) -> Tensor:
    """Map [S * slots, N / V * H] to [S, N / V, slots, H]."""
    return slots.view(tasks, -1, slots.shape[1] // size, size).transpose(1, 2)


def _join_heads(heads: Tensor) -> Tensor:
    """Map [S, N / V, slots, H] to [S * slots, N / V * H]."""
    return heads.transpose(1, 2).flatten(2).flatten(0, 1)
