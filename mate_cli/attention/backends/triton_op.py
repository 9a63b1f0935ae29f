"""The triton backend's kernels as operators of PyTorch: known to autograd, and traced by torch.compile.

Without a compiler the kernels are called directly: the checks that `triton_op` makes in Python cost a call more host
time than the kernels need on a short batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from torch._subclasses import FakeTensor

from mate_cli.attention.backends import triton_kernels as kernels
from mate_cli.attention.backends.triton_tiles import Tiling, is_interpreted


def segment_attention(
    qkv: Tensor, key_bias: Tensor | None, seed: Tensor | None, tiling: Tiling, sizes: tuple[int, int], dropout: float
) -> Tensor:
    """Attend: [P, 3, N, H] to [P, N, H].

    Args:
        qkv: query, key and value of every token.
        key_bias: Float32 [P], or None.
        seed: of the dropout, Int64 [1] on the device; None without dropout.
        tiling: the tasks cut into tiles.
        sizes: queries in a tile, and keys taken at a time.
        dropout: the probability of dropping an attention weight.
    """
    inputs = (key_bias, seed, tiling.rows, tiling.tiles, *sizes, tiling.heads, dropout)
    output: Tensor = _Attention.apply(qkv.contiguous(), *inputs)  # type: ignore[no-untyped-call]
    return output


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, *arguments: Any) -> Tensor:  # noqa: ANN401 - torch's own context
        key_bias, seed, rows, tiles, *ctx.rest = arguments
        operator = torch.ops.mate.segment_attention.default if torch.compiler.is_compiling() else attend
        output, lse = operator(qkv, *arguments)
        ctx.save_for_backward(qkv, output, lse, key_bias, seed, rows, tiles)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:  # noqa: ANN401 - torch's own context
        qkv, output, lse, *arguments = ctx.saved_tensors
        gradient = gradient.to(qkv.dtype).contiguous()
        is_compiling = torch.compiler.is_compiling()
        operator = torch.ops.mate.segment_attention_backward.default if is_compiling else attend_backward
        gradients = operator(qkv, output, lse, gradient, *arguments, *ctx.rest)
        bias_gradient = None if arguments[0] is None else gradients[1].sum(1)
        return gradients[0], bias_gradient, *[None] * 7


class Launch(NamedTuple):
    """Launch settings of a kernel.

    Args:
        width: columns that a program works on, the head size or the next power of two.
        step: keys that a program takes at a time.
    """

    width: int
    step: int
    warps: int
    stages: int


def launch_options(kernel: Any, tile: int, step: int, head_size: int, bytes_per_number: int) -> Launch:  # noqa: ANN401
    """Choose launch settings that fit the shared memory of every GPU from Ampere on.

    Measured on an H200 in bfloat16, heads of 64; the gradient of keys and values has the most registers to fill. In 32
    bits heads of more than 64 take 16 keys at a time: 32 of them would need 104 KB, and GPUs for desktops have 99.
    """
    width = max(16, triton.next_power_of_2(head_size))
    if bytes_per_number == 4:
        return Launch(width, min(step, 32 if width <= 64 else 16), 8 if tile > 32 else 4, 1)
    return Launch(width, min(step, 32) if kernel is kernels.key_value_gradient else step, 8 if tile > 64 else 4, 3)


def attend(
    qkv: Tensor,
    key_bias: Tensor | None,
    seed: Tensor | None,
    rows: Tensor,
    tiles: Tensor,
    tile: int,
    step: int,
    heads: int,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """Return attended values [P, N, H] and log-sum-exp in base 2, by head in the order of the tasks."""
    output = qkv.new_empty(len(qkv), *qkv.shape[2:])
    lse = qkv.new_empty(heads, len(rows), dtype=torch.float32)
    _launch(kernels.attend, (qkv, key_bias, output, lse), seed, rows, tiles, tile, step, heads, dropout)
    return output, lse


def attend_backward(
    qkv: Tensor,
    output: Tensor,
    lse: Tensor,
    gradient: Tensor,
    key_bias: Tensor | None,
    seed: Tensor | None,
    rows: Tensor,
    tiles: Tensor,
    tile: int,
    step: int,
    heads: int,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of qkv [P, 3, N, H] and of the bias, still by head [P, N]."""
    arguments = (seed, rows, tiles, tile, step, heads, dropout)
    delta = torch.empty_like(lse)
    gradients = torch.empty_like(qkv), qkv.new_empty(len(qkv), qkv.shape[2], dtype=torch.float32)
    _launch(kernels.query_gradient, (qkv, key_bias, output, lse, gradient, delta, gradients[0]), *arguments)
    _launch(kernels.key_value_gradient, (qkv, key_bias, lse, gradient, delta, *gradients), *arguments)
    return gradients


def _launch(
    kernel: Any,  # noqa: ANN401 - Triton's own type differs when it interprets
    tensors: tuple[Tensor | None, ...],
    seed: Tensor | None,
    rows: Tensor,
    tiles: Tensor,
    tile: int,
    step: int,
    heads: int,
    dropout: float,
) -> None:
    """Run a kernel on every tile and head."""
    qkv = tensors[0]
    assert qkv is not None
    if not len(tiles) or isinstance(qkv, FakeTensor):
        return
    if type(qkv) is not Tensor:  # torch.compile is tracing
        kernel = torch.library.wrap_triton(kernel)
    size = qkv.shape[-1]
    options = launch_options(kernel, tile, step, size, qkv.element_size())
    with torch.cuda.device_of(qkv):  # type: ignore[no-untyped-call]
        kernel[(len(tiles) * heads,)](
            *(*tensors, rows, tiles, len(rows), size**-0.5, dropout, seed),
            BLOCKS=qkv.shape[2] // heads,
            HEADS=heads,
            SIZE=size,
            WIDTH=options.width,
            TILE=tile,
            STEP=options.step,
            BIASED=tensors[1] is not None,
            DROPPED=dropout > 0,
            PRECISION=_precision(),
            WIDEN=is_interpreted(),
            num_warps=options.warps,
            num_stages=options.stages,
        )


def _precision() -> str:
    """Choose how float32 is multiplied: as PyTorch multiplies it on a GPU; exactly, unless told otherwise."""
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"


torch.library.triton_op("mate::segment_attention", attend, mutates_args=())
torch.library.triton_op("mate::segment_attention_backward", attend_backward, mutates_args=())
