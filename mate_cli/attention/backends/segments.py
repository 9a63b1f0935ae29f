"""Exact row and column attention without a dense mask.

Every row and column is a separate small attention.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import embedding, scaled_dot_product_attention

from mate_cli.attention.backends.sdpa import Sdpa, additive_mask
from mate_cli.attention.base import AttentionPlan, SegmentBackend, attention_dtype
from mate_cli.attention.patterns import Full
from mate_cli.attention.segment_tasks import SegmentTables, TaskClass, segment_tables

Masks = Sequence[Tensor | None]
"""Additive mask of each task class, [S, 1, 1, keys]. None if no key slot of the class is empty."""


class Segments(SegmentBackend):
    """Attention backend that gathers each row or column with the global tokens, and computes attention within it.

    Computes T * (G + mean segment length) pairs instead of T * T, with G global tokens and the same result. In the full
    pattern every example is one segment, so examples of different lengths need no padding.
    """

    def prepare(self, plan: AttentionPlan) -> None:
        """Compute the index tables of the segments of a batch, and cache the tables in its plan."""
        segment_tables(plan)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Map queries, keys and values of P tokens, [P, 3, N, H], to attention outputs [P, N, H].

        See `Attention.forward`.
        """
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
    """Return the additive mask of a task class, [S, 1, 1, keys], or None if no task has padding."""
    return None if task_class.empty_keys is None else additive_mask(~task_class.empty_keys, dtype)[:, None, None]


def _attend(qkv: Tensor, tables: SegmentTables, masks: Masks, key_bias: Tensor | None, dropout: float) -> Tensor:
    """Compute the attention of segment tokens to their segment, and of global tokens to their whole example."""
    if key_bias is not None:
        masks = _biased(masks, tables, key_bias)
    # The gradient of a lookup in an embedding table is summed without atomic adds.
    gathered = _by_class(embedding(tables.slots, qkv.view(3 * tables.output_slots.numel(), -1)), tables)
    heads = (
        scaled_dot_product_attention(*_class_heads(task_class, x, qkv), mask, dropout)
        for task_class, x, mask in zip(tables.classes, gathered, masks, strict=True)
    )
    slots = [x.transpose(1, 2).flatten(2).flatten(0, 1) for x in heads]
    # The rows of global tokens are not valid yet.
    outputs = embedding(tables.output_slots, torch.cat(slots)).view_as(qkv[:, 0]) if slots else qkv[:, 0]
    examples = torch.split(qkv, [end - start for start, end in tables.spans])
    global_positions, global_outputs = [], []
    for positions, span, example in zip(tables.globals, tables.spans, examples, strict=True):
        if len(positions):
            bias = None if key_bias is None else key_bias[None, None, None, slice(*span)]
            output = scaled_dot_product_attention(*_global_heads(example, positions - span[0]), bias, dropout)
            global_positions.append(positions)
            global_outputs.append(output[0].transpose(0, 1))
    if not global_positions:
        return outputs
    return outputs.index_copy(0, torch.cat(global_positions), torch.cat(global_outputs))


def _by_class(slots: Tensor, tables: SegmentTables) -> tuple[Tensor, ...]:
    """Split values of all slots into one array per class of equally padded tasks."""
    return torch.split(slots, [sum(task_class.sizes) for task_class in tables.classes])


def _biased(masks: Masks, tables: SegmentTables, key_bias: Tensor) -> Masks:
    """Add the bias of each key, [P], to the additive masks of all task classes."""
    biases = _by_class(key_bias[tables.slots // (3 * tables.blocks)], tables)
    keys = [
        torch.split(x, task_class.sizes)[1].view(task_class.tasks, 1, 1, task_class.keys)
        for task_class, x in zip(tables.classes, biases, strict=True)
    ]
    return tuple(bias if mask is None else bias + mask for bias, mask in zip(keys, masks, strict=True))


def _class_heads(task_class: TaskClass, slots: Tensor, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Split the gathered slots of a class of tasks into query, key and value heads.

    Each is [S, N / V, slots, H].
    """
    shape = (task_class.tasks, -1, slots.shape[1] // qkv.shape[-1], qkv.shape[-1])
    query, key, value = (x.view(shape).transpose(1, 2) for x in torch.split(slots, task_class.sizes))
    return query, key, value


def _global_heads(example: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Split one example into queries of global tokens, and keys and values of all tokens.

    Queries are [1, N, G, H]. Keys and values are of the L tokens of the example.
    """
    query, key, value = example.unbind(1)
    if len(positions) != len(query):
        query = query[positions]
    return query.transpose(0, 1)[None], key.transpose(0, 1)[None], value.transpose(0, 1)[None]
