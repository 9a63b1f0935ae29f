"""The Triton kernels compiled ahead of time for cards that are not here: all that can be chosen fits each of them."""

from collections import Counter

import numpy as np
import pytest
import torch
from batches import one_table, pad

pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from triton.runtime import driver

from mate_cli.attention.backends import triton_kernels, triton_op
from mate_cli.attention.backends.triton import Triton
from mate_cli.attention.backends.triton_op import launch_options
from mate_cli.attention.backends.triton_tiles import is_interpreted
from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import RowColumnHeads
from mate_cli.models.base.sizes import SIZES

SMALLEST = 86
SHARED_MEMORY = {80: 166_912, 86: 101_376, 89: 101_376, 90: 232_448}
"""Bytes that a program may have, by compute capability. Source: NVIDIA, CUDA C++ Programming Guide, table of technical
specifications per compute capability."""
HEAD_SIZES = sorted({size.head_size for size in SIZES.values()} | {80, 128})
KERNELS = ("attend", "query_gradient", "key_value_gradient")
TYPES = {"fp32": 4, "bf16": 2, "fp16": 2}
TENSORS = ("qkv", "output", "gradient", "qkv_gradient")
SCALARS = {"scale": "fp32", "dropout": "fp32", "seed": "*i64", "num_rows": "i32", "rows": "*i32", "tiles": "*i32"}


def compiled(name, capability, dtype, head_size, precision="ieee", extras=True):
    """A kernel as `_launch` would have it compiled."""
    kernel, tile = getattr(triton_kernels, name), Triton().tile
    options = launch_options(kernel, tile, Triton().step, head_size, TYPES[dtype])
    constants = {"BLOCKS": 2, "HEADS": 6, "SIZE": head_size, "WIDTH": options.width, "TILE": tile, "STEP": options.step}
    constants |= {"BIASED": extras, "DROPPED": extras, "PRECISION": precision, "WIDEN": False}
    types = {argument: "*" + dtype if argument in TENSORS else "*fp32" for argument in kernel.arg_names}
    types |= {argument: SCALARS[argument] for argument in types if argument in SCALARS}
    types |= dict.fromkeys(constants, "constexpr")
    places = {(kernel.arg_names.index(argument),): value for argument, value in constants.items()}
    aligned = {(i,): [["tt.divisibility", 16]] for i, type_ in enumerate(types.values()) if type_.startswith("*")}
    source = ASTSource(fn=kernel, signature=types, constexprs=places, attrs=aligned)
    launch = {"num_warps": options.warps, "num_stages": options.stages}
    return compile(source, target=GPUTarget("cuda", capability, 32), options=launch)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    if is_interpreted():
        pytest.skip("the interpreter compiles nothing")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.mark.long
@pytest.mark.parametrize(
    ("dtype", "head_size"), [*((dtype, size) for dtype in ("fp32", "bf16") for size in HEAD_SIZES), ("fp16", 128)]
)
def test_every_choice_fits_the_smallest_card(dtype, head_size):
    """With dropout and a bias, which need the most; fp16 takes as much memory as bf16."""
    for name in KERNELS:
        program = compiled(name, SMALLEST, dtype, head_size)
        assert program.metadata.shared <= SHARED_MEMORY[SMALLEST], name
        assert program.asm["cubin"]


@pytest.mark.long
@pytest.mark.parametrize("capability", sorted(SHARED_MEMORY.keys() - {SMALLEST}))
@pytest.mark.parametrize(("dtype", "head_size"), [("fp32", 64), ("fp32", 128), ("bf16", 64), ("bf16", 128)])
def test_tiles_fit_every_other_card(capability, dtype, head_size):
    for name in KERNELS:
        program = compiled(name, capability, dtype, head_size)
        assert program.metadata.shared <= SHARED_MEMORY[capability], name
        assert program.asm["cubin"]


@pytest.mark.long
@pytest.mark.parametrize("name", KERNELS)
def test_hopper_gets_its_own_matrix_products(name):
    assert "warp_group_dot" in compiled(name, 90, "bf16", 64).asm["ttgir"]
    assert "warp_group_dot" not in compiled(name, 90, "fp32", 64).asm["ttgir"]


@pytest.mark.long
@pytest.mark.parametrize("name", KERNELS)
def test_tf32_and_the_plain_case(name):
    for precision, extras in (("tf32", True), ("ieee", False)):
        program = compiled(name, 86, "fp32", 128, precision, extras)
        assert program.metadata.shared <= SHARED_MEMORY[86]


class Card:
    """What torch.compile asks of a card, to learn which tensors a kernel writes to."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)


def zeros_like_outputs(graph, _):
    from torch._functorch.aot_autograd import make_boxed_func

    (results,) = graph.graph.output_node().args
    return make_boxed_func(lambda *_: [None if one is None else torch.zeros(one.meta["val"].shape) for one in results])


@pytest.mark.long
def test_the_kernels_are_traced_and_write_to_their_outputs_alone(monkeypatch):
    """Graphs of a forward and a backward pass have the kernels, and copy nothing back into what was given."""
    from torch._dynamo.backends.common import aot_autograd  # takes three seconds, which no other test should wait for

    monkeypatch.setattr(driver, "_active", Card())
    batch = pad([one_table(np.random.default_rng(0), 3, 2, 2, 3)])
    tiling, seed = Triton()._tiling(AttentionPlan(RowColumnHeads(2), batch)), torch.zeros(1, dtype=torch.int64)
    qkv = torch.randn(batch.input_ids.numel(), 3, 2, 8, requires_grad=True)
    bias = torch.randn(len(qkv), requires_grad=True)
    found = []

    def keep(graph, inputs):
        found.append(Counter(str(node.target).partition(".")[0] for node in graph.graph.nodes))
        found[-1]["copies"] = sum("copy_" in str(node.target) for node in graph.graph.nodes)
        return zeros_like_outputs(graph, inputs)

    def attend(qkv, bias):
        return triton_op.segment_attention(qkv * 2, bias, seed, tiling, (64, 64), 0.1).square()

    output = torch.compile(attend, backend=aot_autograd(fw_compiler=keep), fullgraph=True)(qkv, bias)
    torch.autograd.grad(output.sum(), (qkv, bias))
    assert [counts["triton_kernel_wrapper_functional"] for counts in found] == [1, 2]
    assert not any(counts["copies"] for counts in found)
