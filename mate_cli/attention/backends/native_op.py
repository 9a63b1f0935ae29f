"""The native backend's kernels as an operator of PyTorch: known to autograd, and opaque to torch.compile."""

import ctypes
from typing import Any

import torch
from torch import Tensor

from mate_cli.attention.backends.native_build import native_kernels

Tensors = tuple[Tensor, Tensor]

COMMON = "Tensor qkv, Tensor? key_bias, Tensor seed, Tensor rows, Tensor tasks, int blocks, float dropout"


class KernelArguments(ctypes.Structure):
    """Arguments of both kernels; the fields are those of `Problem` in native_cpp/tasks.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("blocks", "heads", "size", "count", "threads", "seed")),
        ("dropout", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("rows", "tasks", "qkv", "key_bias")),
    )


@torch.library.custom_op("mate::native_attention", mutates_args=(), schema=f"({COMMON}) -> (Tensor, Tensor)")
def native_attention(
    qkv: Tensor, key_bias: Tensor | None, seed: Tensor, rows: Tensor, tasks: Tensor, blocks: int, dropout: float
) -> Tensors:
    """Attend: Float32 [P, 3, N, H] to [P, N, H], and the log-sum-exp of the scores in base 2, [P, N].

    Args:
        qkv: query, key and value of every token, contiguous.
        key_bias: Float32 [P], or None.
        seed: of the dropout, Int64 [1].
        rows: of the table, see `SegmentTasks`; Int32 [V * P].
        tasks: its six lists, Int32 [6, tasks].
        blocks: of heads, V.
        dropout: the probability of dropping an attention weight.
    """
    outputs = _like_outputs(qkv)
    _call("mate_attend", (qkv, key_bias, seed, rows, tasks, blocks, dropout), outputs)
    return outputs


@native_attention.register_fake
def _(qkv: Tensor, *rest: object) -> Tensors:
    return _like_outputs(qkv)


@torch.library.custom_op(
    "mate::native_attention_backward",
    mutates_args=(),
    schema=f"(Tensor output, Tensor lse, Tensor gradient, bool biased, {COMMON}) -> (Tensor, Tensor)",
)
def native_attention_backward(
    output: Tensor,
    lse: Tensor,
    gradient: Tensor,
    biased: bool,
    qkv: Tensor,
    key_bias: Tensor | None,
    seed: Tensor,
    rows: Tensor,
    tasks: Tensor,
    blocks: int,
    dropout: float,
) -> Tensors:
    """Return the gradients of qkv [P, 3, N, H] and, if asked for, of the bias, still by head [P, N]."""
    gradients = _like_gradients(qkv, lse, biased)
    arguments = (qkv, key_bias, seed, rows, tasks, blocks, dropout)
    _call("mate_attend_backward", arguments, (output, lse, gradient, gradients[0], gradients[1] if biased else None))
    return gradients


@native_attention_backward.register_fake
def _(output: Tensor, lse: Tensor, gradient: Tensor, biased: bool, qkv: Tensor, *rest: object) -> Tensors:
    return _like_gradients(qkv, lse, biased)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensors) -> None:  # noqa: ANN401 - torch's own context
    *tensors, ctx.blocks, ctx.dropout = inputs
    ctx.save_for_backward(*output, *tensors)


def _differentiate(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own
    output, lse, *tensors = ctx.saved_tensors
    biased = ctx.needs_input_grad[1]
    arguments = (*tensors, ctx.blocks, ctx.dropout)
    qkv_gradient, by_head = native_attention_backward(output, lse, gradient.contiguous(), biased, *arguments)
    return qkv_gradient, by_head.sum(1) if biased else None, None, None, None, None, None


native_attention.register_autograd(_differentiate, setup_context=_save)


def _like_outputs(qkv: Tensor) -> Tensors:
    tokens, _, heads, size = qkv.shape
    return qkv.new_empty(tokens, heads, size), qkv.new_empty(tokens, heads)


def _like_gradients(qkv: Tensor, lse: Tensor, biased: bool) -> Tensors:
    return torch.empty_like(qkv), torch.empty_like(lse) if biased else lse.new_empty(0)


def _call(name: str, arguments: tuple[Any, ...], results: tuple[Tensor | None, ...]) -> None:
    """Run a kernel; it releases Python's lock."""
    qkv, key_bias, seed, rows, tasks, blocks, dropout = arguments
    kernels = native_kernels()
    assert kernels is not None
    problem = KernelArguments(
        blocks,
        qkv.shape[2] // blocks,
        qkv.shape[3],
        tasks.shape[1],
        torch.get_num_threads(),
        int(seed),
        dropout,
        *(_address(tensor) for tensor in (rows, tasks, qkv, key_bias)),
    )
    getattr(kernels, name)(ctypes.byref(problem), *(_address(tensor) for tensor in results))


def _address(tensor: Tensor | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())
