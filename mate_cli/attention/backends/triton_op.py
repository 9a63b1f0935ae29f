"""The triton backend's kernels as an operator of PyTorch: known to autograd, and opaque to torch.compile."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from mate_cli.attention.backends import triton_kernels as kernels
from mate_cli.attention.backends.triton_tiles import Tiling, interpreted

Tensors = tuple[Tensor, Tensor]

COMMON = "Tensor? key_bias, Tensor seed, Tensor rows, Tensor[] tiles, int[] sizes, int heads, float dropout"


def segment_attention(
    qkv: Tensor, key_bias: Tensor | None, seed: Tensor, tiling: Tiling, sizes: list[int], dropout: float
) -> Tensor:
    """Attend: [P, 3, N, H] to [P, N, H].

    Args:
        qkv: query, key and value of every token.
        key_bias: Float32 [P], or None.
        seed: of the dropout, Int64 [1] on the CPU.
        tiling: the tasks cut into tiles.
        sizes: queries in the tiles of each launch, then keys taken at a time.
        dropout: the probability of dropping an attention weight.
    """
    tables = list(tiling.tiles)
    return _attend(qkv.contiguous(), key_bias, seed, tiling.rows, tables, sizes, tiling.heads, dropout)[0]


@torch.library.custom_op(
    "mate::segment_attention", mutates_args=(), schema=f"(Tensor qkv, {COMMON}) -> (Tensor, Tensor)"
)
def _attend(
    qkv: Tensor,
    key_bias: Tensor | None,
    seed: Tensor,
    rows: Tensor,
    tiles: list[Tensor],
    sizes: list[int],
    heads: int,
    dropout: float,
) -> Tensors:
    """Attended values [P, N, H] and log-sum-exp in base 2 [P, N]."""
    output, lse = _like_output(qkv)
    given = (qkv, key_bias, output, lse, rows)
    _launch(kernels.attend, given, tiles, sizes, heads, dropout, seed)
    return output, lse


@_attend.register_fake
def _(qkv: Tensor, *rest: object) -> Tensors:
    return _like_output(qkv)


@torch.library.custom_op(
    "mate::segment_attention_backward",
    mutates_args=(),
    schema=f"(Tensor qkv, Tensor output, Tensor lse, Tensor gradient, {COMMON}) -> (Tensor, Tensor)",
)
def _attend_backward(
    qkv: Tensor,
    output: Tensor,
    lse: Tensor,
    gradient: Tensor,
    key_bias: Tensor | None,
    seed: Tensor,
    rows: Tensor,
    tiles: list[Tensor],
    sizes: list[int],
    heads: int,
    dropout: float,
) -> Tensors:
    """The gradients of qkv [P, 3, N, H] and of the bias, still by head [P, N]."""
    qkv_gradient, bias_gradient, delta = torch.empty_like(qkv), torch.empty_like(lse), torch.empty_like(lse)
    given = (qkv, key_bias, output, lse, gradient, delta, qkv_gradient, rows)
    _launch(kernels.query_gradient, given, tiles, sizes, heads, dropout, seed)
    given = (qkv, key_bias, lse, gradient, delta, qkv_gradient, bias_gradient, rows)
    _launch(kernels.key_value_gradient, given, tiles, sizes, heads, dropout, seed)
    return qkv_gradient, bias_gradient


@_attend_backward.register_fake
def _(qkv: Tensor, output: Tensor, lse: Tensor, *rest: object) -> Tensors:
    return torch.empty_like(qkv), torch.empty_like(lse)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensors) -> None:  # noqa: ANN401 - torch's own context
    qkv, key_bias, seed, rows, tiles, ctx.sizes, ctx.heads, ctx.dropout = inputs
    ctx.save_for_backward(qkv, *output, key_bias, seed, rows, *tiles)


def _differentiate(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Any, ...]:  # noqa: ANN401 - torch's own
    qkv, output, lse, key_bias, seed, rows, *tiles = ctx.saved_tensors
    given = (key_bias, seed, rows, tiles, ctx.sizes, ctx.heads, ctx.dropout)
    gradient = gradient.to(qkv.dtype).contiguous()
    qkv_gradient, by_head = _attend_backward(qkv, output, lse, gradient, *given)
    bias_gradient = None if key_bias is None else by_head.sum(1)
    return qkv_gradient, bias_gradient, None, None, [None] * len(tiles), None, None, None


_attend.register_autograd(_differentiate, setup_context=_save)


def _like_output(qkv: Tensor) -> Tensors:
    tokens, _, heads, size = qkv.shape
    return qkv.new_empty(tokens, heads, size), qkv.new_empty(tokens, heads, dtype=torch.float32)


def _launch(
    kernel: Any,  # noqa: ANN401 - Triton's own type differs when it interprets
    given: tuple[Tensor | None, ...],
    tiles: list[Tensor],
    sizes: list[int],
    heads: int,
    dropout: float,
    seed: Tensor,
) -> None:
    """Run a kernel once for each size of tiles that occurs."""
    qkv = given[0]
    assert qkv is not None
    size, wide = qkv.shape[-1], qkv.element_size() == 4
    for table, rows in zip(tiles, sizes, strict=False):
        if len(table):
            with torch.cuda.device_of(qkv):  # type: ignore[no-untyped-call]
                kernel[(len(table) * heads,)](
                    *(*given, table, size**-0.5, dropout, int(seed)),
                    BLOCKS=qkv.shape[2] // heads,
                    HEADS=heads,
                    SIZE=size,
                    WIDTH=max(16, triton.next_power_of_2(size)),
                    TILE=rows,
                    # Chosen by what ptxas reports for sm_90 and head size 64: hardly a register is spilled.
                    STEP=min(sizes[-1], 32) if wide else sizes[-1],
                    BIASED=given[1] is not None,
                    DROPPED=dropout > 0,
                    PRECISION=_precision(),
                    WIDEN=interpreted(),
                    num_warps=8 if rows > (32 if wide else 64) else 4,
                    num_stages=1 if wide else 2,
                )


def _precision() -> str:
    """How float32 is multiplied: as PyTorch multiplies it on a GPU; exactly, unless told otherwise."""
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"
