"""What the operator of the triton backend costs the host, with kernels that do nothing."""

import time

import pytest
import torch
from batches import one_table, pad

pytest.importorskip("triton")

import numpy as np
from torch.nn import functional

from mate_cli.attention.backends import triton_op
from mate_cli.attention.backends.triton import Triton
from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import RowColumnHeads

CALLS = 200


def test_the_operator_costs_the_host_no_more_than_a_small_layer_of_torch(monkeypatch):
    """A linear map, GELU and a norm, forward and backward, are what a machine of any speed can be held to."""
    monkeypatch.setattr(triton_op, "_launch", lambda *_: None)
    batch = pad([one_table(np.random.default_rng(0), 4, 6, 3, 4)])
    plan, backend = AttentionPlan(RowColumnHeads(4), batch), Triton()
    tiling = backend._tiling(plan)
    qkv = torch.randn(sum(plan.packing.lengths), 3, 4, 8, requires_grad=True)
    gradient = torch.randn(len(qkv), 4, 8)

    weight, states = torch.randn(32, 32, requires_grad=True), torch.randn(4, 32)

    def attend():
        output = triton_op.segment_attention(qkv, None, None, tiling, (64, 64), 0.0)
        torch.autograd.grad(output, qkv, gradient)

    def small_layer():
        output = functional.layer_norm(functional.gelu(functional.linear(states, weight)), (32,))
        torch.autograd.grad(output, weight, states)

    def seconds(work):
        began = time.process_time()
        for _ in range(CALLS):
            work()
        return time.process_time() - began

    ours, torchs = [], []
    for _ in range(30):  # a busy machine has quiet moments
        ours.append(seconds(attend))
        torchs.append(seconds(small_layer))
        if len(ours) > 2 and min(ours) <= 1.2 * min(torchs):
            break
    assert min(ours) <= 1.2 * min(torchs)
