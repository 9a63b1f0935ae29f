"""The kernels of the triton backend as operators for autograd and torch.compile.

Without torch.compile the kernels are called directly: on a short batch, the Python checks of `triton_op` take longer
than the kernels.
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
    """Compute attention within segments and to global tokens with Triton, [P, 3, N, H] to [P, N, H].

    Args:
        qkv: query, key and value vectors of every token.
        key_bias: bias of every key, Float32 [P]. None: no bias.
        seed: seed of the dropout, Int64 [1] on the device. None without dropout.
        tiling: tasks split into tiles.
        sizes: number of queries in a tile, and number of keys loaded at a time.
        dropout: dropout probability of attention weights.
    """
    inputs = (key_bias, seed, tiling.rows, tiling.tiles, *sizes, tiling.heads, dropout)
    output: Tensor = _Attention.apply(qkv.contiguous(), *inputs)  # type: ignore[no-untyped-call]
    return output


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, *arguments: Any) -> Tensor:  # noqa: ANN401 - torch's own context
        key_bias, seed, rows, tiles, *ctx.options = arguments
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
        gradients = operator(qkv, output, lse, gradient, *arguments, *ctx.options)
        bias_gradient = None if arguments[0] is None else gradients[1].sum(1)
        return gradients[0], bias_gradient, *[None] * 7


class Launch(NamedTuple):
    """Settings with which a Triton kernel is launched.

    Args:
        width: number of columns of a program: the head size, rounded up to a power of two.
        step: number of keys that a program loads at a time.
        warps: number of warps of a program.
        stages: number of stages of software pipelining.
    """

    width: int
    step: int
    warps: int
    stages: int


def launch_options(kernel: Any, tile: int, step: int, head_size: int, bytes_per_number: int) -> Launch:  # noqa: ANN401
    """Return launch settings that fit the shared memory of every GPU from Ampere on.

    Tuned on an H200 in bfloat16 with a head size of 64. `key_value_gradient` needs the most registers. In 32 bits,
    heads larger than 64 load 16 keys at a time, because 32 keys would need 104 KB and desktop GPUs have 99 KB.

    Args:
        kernel: kernel of `triton_kernels` to launch.
        tile: number of queries (or keys) in a tile.
        step: maximum number of keys to load at a time.
        head_size: size H of an attention head.
        bytes_per_number: size of the dtype in bytes.
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
    """Compute attention within segments (such as rows) and to global tokens with the Triton kernel.

    Args:
        qkv: query, key and value vectors of every token, [P, 3, N, H].
        key_bias: bias of every key, Float32 [P]. None: no bias.
        seed: seed of the dropout, Int64 [1] on the device. None without dropout.
        rows: rows of `Tiling`, Int32 [V * P].
        tiles: tiles of `Tiling`, Int32 [tiles, 6].
        tile: number of queries in a tile.
        step: maximum number of keys to load at a time.
        heads: number of heads in each block.
        dropout: dropout probability of attention weights.

    Returns:
        Attended values [P, N, H], and log-sum-exp of the logits in base 2, [heads, V * P] in the order of the tasks.
    """
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
    """Compute the gradients of the inputs of `attend` from the gradient of its output.

    Args:
        qkv: query, key and value vectors of every token, [P, 3, N, H].
        output: attended values, [P, N, H].
        lse: log-sum-exp of the logits in base 2, [heads, V * P].
        gradient: gradient of `output`, [P, N, H].
        key_bias: as in `attend`, like all following arguments.
        seed: seed of the dropout.
        rows: rows of `Tiling`.
        tiles: tiles of `Tiling`.
        tile: number of queries (or keys) in a tile.
        step: maximum number of keys (or queries) to load at a time.
        heads: number of heads in each block.
        dropout: dropout probability of attention weights.

    Returns:
        The gradient of `qkv` [P, 3, N, H], and the gradient of `key_bias` per head [P, N].
    """
    arguments = (seed, rows, tiles, tile, step, heads, dropout)
    delta = torch.empty_like(lse)
    gradients = torch.empty_like(qkv), qkv.new_empty(len(qkv), qkv.shape[2], dtype=torch.float32)
    _launch(kernels.query_gradient, (qkv, key_bias, output, lse, gradient, delta, gradients[0]), *arguments)
    _launch(kernels.key_value_gradient, (qkv, key_bias, lse, gradient, delta, *gradients), *arguments)
    return gradients


def _launch(
    kernel: Any,  # noqa: ANN401 - the type differs in the Triton interpreter
    tensors: tuple[Tensor | None, ...],
    seed: Tensor | None,
    rows: Tensor,
    tiles: Tensor,
    tile: int,
    step: int,
    heads: int,
    dropout: float,
) -> None:
    """Launch a Triton kernel with one program per tile of queries and head."""
    qkv = tensors[0]
    assert qkv is not None
    if not len(tiles) or isinstance(qkv, FakeTensor):
        return
    # torch.compile traces with a subclass of Tensor.
    if type(qkv) is not Tensor:
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
            PRECISION="tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee",
            WIDEN=is_interpreted(),
            num_warps=options.warps,
            num_stages=options.stages,
        )


torch.library.triton_op("mate::segment_attention", attend, mutates_args=())
torch.library.triton_op("mate::segment_attention_backward", attend_backward, mutates_args=())
