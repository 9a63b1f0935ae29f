"""Packing leaves out padding and nothing else."""

import torch
from batches import batches
from hypothesis import given

from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import Full


@given(batches())
def test_round_trip(batch):
    packing = AttentionPlan(Full(1), batch).packing
    real = batch.attention_mask == 1
    values = torch.arange(1.0, real.numel() + 1).view(real.shape)
    packed = packing.pack(values)
    assert torch.equal(packed, values[real])
    assert torch.equal(packing.unpack(packed), values * real)
    assert packing.lengths == tuple(real.sum(1).tolist())


@given(batches())
def test_gradients(batch):
    packing = AttentionPlan(Full(1), batch).packing
    real = batch.attention_mask == 1
    values = torch.randn(*real.shape, 2, dtype=torch.float64, requires_grad=True)
    packing.unpack(packing.pack(values).square()).sum().backward()
    torch.testing.assert_close(values.grad, 2 * values.detach() * real[..., None])


def test_without_padding_nothing_is_copied():
    from batches import batch_from

    packing = AttentionPlan(Full(1), batch_from(*[[[1, 1], [1, 1]]] * 4)).packing
    values = torch.randn(2, 2, 3)
    assert packing.unpack(packing.pack(values)).data_ptr() == values.data_ptr()
