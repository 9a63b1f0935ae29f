"""The triton backend's kernels as operators of PyTorch: known to autograd, and opaque to torch.compile.

The operators are declared by `torch.library` itself and not by its `custom_op`, whose checks in Python cost a call more
host time than the kernels need on a short batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from mate_cli.attention.backends import triton_kernels as kernels
from mate_cli.attention.backends.triton_tiles import Tiling, is_interpreted

Tensors = tuple[Tensor, Tensor]

COMMON = (
    "Tensor? key_bias, Tensor seed, Tensor rows, Tensor tiles, int[] ends, int[] sizes, int heads, int planes,"
    " float dropout"
)
LIBRARY: Any = torch.library.Library("mate", "FRAGMENT")  # type: ignore[no-untyped-call]
LIBRARY.define(f"segment_attention(Tensor qkv, {COMMON}) -> (Tensor, Tensor)")
LIBRARY.define(
    f"segment_attention_backward(Tensor qkv, Tensor output, Tensor lse, Tensor gradient, {COMMON}) -> (Tensor, Tensor)"
)


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
    inputs = (key_bias, seed, tiling.rows, tiling.tiles, list(tiling.ends), sizes, tiling.heads, tiling.planes, dropout)
    output: Tensor = _Attention.apply(qkv.contiguous(), *inputs)  # type: ignore[no-untyped-call]
    return output


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, *arguments: Any) -> Tensor:  # noqa: ANN401 - torch's own context
        key_bias, seed, rows, tiles, *ctx.rest = arguments
        output, lse = torch.ops.mate.segment_attention.default(qkv, *arguments)
        ctx.save_for_backward(qkv, output, lse, key_bias, seed, rows, tiles)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:  # noqa: ANN401 - torch's own context
        qkv, output, lse, *arguments = ctx.saved_tensors
        gradient = gradient.to(qkv.dtype).contiguous()
        gradients = torch.ops.mate.segment_attention_backward.default(qkv, output, lse, gradient, *arguments, *ctx.rest)
        bias_gradient = None if arguments[0] is None else gradients[1].sum(1)
        return gradients[0], bias_gradient, *[None] * 8


class Launch(NamedTuple):
    """Launch settings for tiles of one size.

    Args:
        width: columns that a program works on, the head size or the next power of two.
        step: keys that a program takes at a time.
    """

    width: int
    step: int
    warps: int
    stages: int


def launch_options(tile: int, step: int, head_size: int, bytes_per_number: int) -> Launch:
    """Choose launch settings for tiles of so many queries that fit the shared memory of every GPU from Ampere on.

    Chosen by what ptxas reports for head size 64 and sm_90: hardly a register is spilled. In 32 bits heads of more than
    64 take 16 keys at a time: 32 of them would need 104 KB, and GPUs for desktops have 99.
    """
    width = max(16, triton.next_power_of_2(head_size))
    if bytes_per_number == 4:
        return Launch(width, min(step, 32 if width <= 64 else 16), 8 if tile > 32 else 4, 1)
    return Launch(width, step, 8 if tile > 64 else 4, 2)


def _attend(qkv: Tensor, key_bias: Tensor | None, *arguments: Any) -> Tensors:
    """Return attended values [P, N, H] and log-sum-exp in base 2 [P, N]."""
    output, lse = _like_output(qkv)
    if (planes := arguments[-2]) == 1:
        _launch(kernels.attend, (qkv, key_bias, output, lse), *arguments)
        return output, lse
    parts = output.new_zeros(planes, *output.shape, dtype=torch.float32)
    sums = lse.new_full((planes, *lse.shape), -torch.inf)
    _launch(kernels.attend, (qkv, key_bias, parts, sums), *arguments)
    top = sums.amax(0)
    weights = (sums - top).exp2_()
    total = weights.sum(0)
    return (parts.mul_(weights[..., None]).sum(0) / total[..., None]).to(output.dtype), top + total.log2()


def _attend_backward(
    qkv: Tensor, output: Tensor, lse: Tensor, gradient: Tensor, key_bias: Tensor | None, *arguments: Any
) -> Tensors:
    """Return the gradients of qkv [P, 3, N, H] and of the bias, still by head [P, N]."""
    delta, planes = torch.empty_like(lse), arguments[-2]
    if planes == 1:
        gradients = torch.empty_like(qkv), torch.empty_like(lse)
    else:
        gradients = qkv.new_zeros(planes, *qkv.shape, dtype=torch.float32), lse.new_zeros(planes, *lse.shape)
    _launch(kernels.query_gradient, (qkv, key_bias, output, lse, gradient, delta, gradients[0]), *arguments)
    _launch(kernels.key_value_gradient, (qkv, key_bias, lse, gradient, delta, *gradients), *arguments)
    return gradients if planes == 1 else (gradients[0].sum(0).to(qkv.dtype), gradients[1].sum(0))


def _like_output(qkv: Tensor) -> Tensors:
    tokens, _, heads, size = qkv.shape
    return qkv.new_empty(tokens, heads, size), qkv.new_empty(tokens, heads, dtype=torch.float32)


LIBRARY.impl("segment_attention", _attend, "CompositeExplicitAutograd")
LIBRARY.impl("segment_attention_backward", _attend_backward, "CompositeExplicitAutograd")


@torch.library.register_fake("mate::segment_attention", lib=LIBRARY)
def _(qkv: Tensor, *rest: object) -> Tensors:
    return _like_output(qkv)


@torch.library.register_fake("mate::segment_attention_backward", lib=LIBRARY)
def _(qkv: Tensor, output: Tensor, lse: Tensor, *rest: object) -> Tensors:
    return torch.empty_like(qkv), torch.empty_like(lse)


def _launch(
    kernel: Any,  # noqa: ANN401 - Triton's own type differs when it interprets
    tensors: tuple[Tensor | None, ...],
    seed: Tensor,
    rows: Tensor,
    tiles: Tensor,
    ends: list[int],
    sizes: list[int],
    heads: int,
    planes: int,
    dropout: float,
) -> None:
    """Run a kernel once for each size of tiles that occurs."""
    qkv = tensors[0]
    assert qkv is not None
    size, first = qkv.shape[-1], 0
    for end, tile in zip(ends, sizes, strict=False):
        if end > first:
            options = launch_options(tile, sizes[-1], size, qkv.element_size())
            with torch.cuda.device_of(qkv):  # type: ignore[no-untyped-call]
                kernel[((end - first) * heads,)](
                    *(*tensors, rows, tiles, first, len(qkv) * qkv.shape[2], size**-0.5, dropout, int(seed)),
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
        first = end


def _precision() -> str:
    """Choose how float32 is multiplied: as PyTorch multiplies it on a GPU; exactly, unless told otherwise."""
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"
