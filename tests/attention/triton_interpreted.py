"""The Triton kernels run in Python, against the definition; `test_triton.py` gives them a process of their own."""

import numpy as np
import pytest
import torch
from batches import attend_padded, batch_from, one_table, pad, projections
from test_patterns_golden import LAYER, difference, layer
from torch.utils.checkpoint import checkpoint

from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.triton import Triton
from mate_cli.attention.base import AttentionPlan, Planner
from mate_cli.attention.patterns import Full, RowColumnHeads
from mate_cli.errors import ConfigError

SMALL = Triton(tile=16, step=16)
HALF = RowColumnHeads(2)


def table(question, rows, columns, cell, seed=0):
    return one_table(np.random.default_rng(seed), question, rows, columns, cell)


def scattered(*tables):
    return pad(list(tables), 5, np.random.default_rng(4))


CASES = {
    "no globals": (RowColumnHeads(4, 0.25), pad([table(0, 4, 3, 3)]), 8),
    "many globals": (HALF, pad([table(70, 2, 2, 3)]), 16),
    "padding anywhere": (RowColumnHeads(4), scattered(table(4, 3, 3, 3), table(2, 1, 2, 2)), 8),
    "one row": (HALF, pad([table(3, 1, 5, 4)]), 20),
    "one column": (HALF, pad([table(3, 6, 1, 4)]), 32),
    "header only": (HALF, pad([table(3, 0, 4, 4)]), 8),
    "long cells": (HALF, pad([table(5, 2, 2, 60)]), 8),
    "mixed shapes": (HALF, pad([table(0, 2, 4, 2), table(9, 6, 2, 3), table(1, 1, 1, 1)], 2), 8),
    "column heads alone": (RowColumnHeads(3, 0.0), pad([table(4, 3, 3, 3)]), 8),
    "row heads alone": (RowColumnHeads(2, 1.0), pad([table(4, 3, 3, 3)]), 80),
    "full": (Full(2), scattered(table(3, 3, 2, 3), table(2, 1, 1, 2)), 8),
    "one token": (HALF, batch_from([[1]], [[1]], [[1]], [[1]]), 8),
}


def attend(backend, pattern, batch, inputs, bias=None, **options):
    """Outputs and the gradients of a fixed sum of them."""
    output = attend_padded(backend, inputs, AttentionPlan(pattern, batch), bias, **options)
    probe = torch.linspace(-1, 1, output.numel()).view(output.shape)
    return [output, *torch.autograd.grad((output * probe).sum(), [*inputs, *([] if bias is None else [bias])])]


def assert_same(got, expected, tolerance=1e-5):
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a.float(), b.float(), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("case", CASES)
def test_equals_the_definition(case):
    pattern, batch, size = CASES[case]
    inputs = projections(batch, pattern.num_heads, size)
    assert_same(attend(SMALL, pattern, batch, inputs), attend(Eager(), pattern, batch, inputs))


def test_the_default_tiles_and_a_bias_on_keys():
    batch = scattered(table(4, 3, 3, 4), table(2, 1, 2, 2))
    inputs, bias = projections(batch, 2), torch.linspace(-2, 0, batch.input_ids.numel())
    bias = bias.view(batch.input_ids.shape).requires_grad_()
    got, expected = (attend(backend, HALF, batch, inputs, bias) for backend in (Triton(), Eager()))
    assert_same(got, expected, 2e-5)
    assert got[-1].abs().max() > 0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_is_no_worse_than_the_fused_kernel(dtype):
    batch = pad([table(4, 3, 3, 4)])
    inputs = projections(batch, 2, 32)
    expected = attend(Eager(), HALF, batch, inputs)
    with torch.autocast("cpu", dtype):
        got = attend(SMALL, HALF, batch, inputs)
    assert got[0].dtype == dtype
    assert_same(got, expected, 0.05 if dtype == torch.bfloat16 else 0.01)


def test_two_passes_give_the_same_bits():
    batch = scattered(table(4, 3, 3, 4))
    inputs = projections(batch, 2)
    first, second = (attend(SMALL, HALF, batch, inputs) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_prepared_ahead_and_recomputed_by_checkpointing():
    batch = pad([table(3, 2, 2, 3), table(1, 1, 2, 2)])
    ready = Planner(((HALF, SMALL),))(batch)
    inputs = projections(batch, 2)
    plan = AttentionPlan(HALF, ready)
    assert len(plan.derived) == len(AttentionPlan(HALF, ready).derived) > 1

    def gradients(run):
        torch.manual_seed(1)
        return torch.autograd.grad(run().square().sum(), inputs)

    def drop(*given):
        return attend_padded(SMALL, given, plan, dropout=0.4)

    plain = gradients(lambda: drop(*inputs))
    again = gradients(lambda: checkpoint(drop, *inputs, use_reentrant=False))
    assert all(torch.equal(a, b) for a, b in zip(plain, again, strict=True))


ALIKE = RowColumnHeads(4)
"""With two heads of each kind."""


def dropped_weights(batch, size, dropout, seed):
    """What is left of every probability, over the probability: values that are unit vectors show the weights."""
    query, key, value = (x.detach() for x in projections(batch, 4, size))
    plan = AttentionPlan(ALIKE, batch)
    tokens = batch.input_ids.shape[1]
    unit = torch.eye(tokens, size).expand(value.shape)
    torch.manual_seed(seed)
    left = attend_padded(SMALL, (query, key, unit), plan, dropout=dropout)[..., :tokens]
    exact = attend_padded(Eager(), (query, key, unit), plan)[..., :tokens]
    return torch.where(exact > 0, left / exact.clamp(min=1e-12), 0.0)


def test_dropout_drops_its_share_and_the_gradients_know_which():
    batch, dropout = pad([table(6, 3, 3, 2)]), 0.3
    factor = dropped_weights(batch, 64, dropout, 5)
    seen = ALIKE.mask(batch)[0]
    kept = factor[0][seen] > 0.5
    torch.testing.assert_close(factor[0][seen][kept], torch.full_like(factor[0][seen][kept], 1 / 0.7))
    assert abs(float(kept.float().mean()) - 0.7) < 3 * (0.21 / kept.numel()) ** 0.5
    left = factor > 0.5
    assert not torch.equal(left, dropped_weights(batch, 64, dropout, 6) > 0.5)
    assert not torch.equal(left[:, 0], left[:, 1])
    assert not torch.equal(left[:, 2], left[:, 3])

    inputs, plan = projections(batch, 4, 64), AttentionPlan(ALIKE, batch)
    probe = torch.linspace(-1, 1, inputs[0].numel()).view(inputs[0].shape)
    torch.manual_seed(5)
    output = attend_padded(SMALL, inputs, plan, dropout=dropout)
    weights = Eager().probabilities(plan.packing.pack(torch.stack(inputs).permute(1, 3, 0, 2, 4)), plan) * factor
    expected = weights @ inputs[2]
    got = torch.autograd.grad((output * probe).sum(), inputs)
    assert_same([output, *got], [expected, *torch.autograd.grad((expected * probe).sum(), inputs)], 2e-5)


@pytest.mark.parametrize("case", ["case04", "case20"])
def test_the_reference_with_masks(case):
    plan, inputs = layer(case)
    output = attend_padded(SMALL, inputs, plan)
    assert difference(output, LAYER[f"{case}/context_mask_unbucketed"], plan) < 2e-5


def test_double_precision_is_refused():
    batch = pad([table(3, 2, 2, 3)])
    with pytest.raises(ConfigError, match="float64"):
        attend_padded(SMALL, projections(batch, 2, dtype=torch.float64), AttentionPlan(HALF, batch))


def operator_inputs(dropout=0.0):
    from mate_cli.attention.backends import triton_op

    batch = pad([table(3, 2, 2, 3)])
    tiling = SMALL._tiling(AttentionPlan(HALF, batch))
    qkv = torch.randn(batch.input_ids.numel(), 3, 2, 8)
    bias, seed = torch.randn(len(qkv)), torch.zeros(1, dtype=torch.int64)
    return triton_op, qkv, bias, seed, tiling, (16, 16), dropout


def test_the_operators_tell_torch_the_truth():
    _, qkv, bias, seed, tiling, sizes, dropout = operator_inputs()
    given = (bias, seed, tiling.rows, tiling.tiles, *sizes, 1, dropout)
    checks = ("test_schema", "test_faketensor")
    forward = torch.ops.mate.segment_attention.default
    backward = torch.ops.mate.segment_attention_backward.default
    output, lse = forward(qkv, *given)
    for operator, inputs in ((forward, (qkv, *given)), (backward, (qkv, output, lse, output.clone(), *given))):
        assert set(torch.library.opcheck(operator, inputs, test_utils=checks).values()) == {"SUCCESS"}


def test_the_operator_in_a_compiled_graph():
    triton_op, qkv, bias, *given = operator_inputs()

    def attend(qkv, bias):
        return triton_op.segment_attention(qkv * 2, bias, *given).square()

    results = []
    for call in (attend, torch.compile(attend, backend="eager", fullgraph=True)):
        inputs = qkv.clone().requires_grad_(), bias.clone().requires_grad_()
        output = call(*inputs)
        results.append([output, *torch.autograd.grad(output.sum(), inputs)])
    assert_same(*results, 0)
