"""Batches with their plans travel from loading processes as one buffer: few open files, and the same values."""

import pickle

import numpy as np
import pytest
import torch
from batches import batches, one_table, pad
from hypothesis import given

from mate_cli.attention.backends.native import Native
from mate_cli.attention.backends.segments import Segments
from mate_cli.attention.backends.triton import Triton
from mate_cli.attention.base import Planner
from mate_cli.attention.patterns import Full, RowColumnHeads
from mate_cli.tokenization.tensor_buffer import map_tensors, pack_tensors

BACKENDS = [Segments(), Triton(), Native()]


def planned(batch, backend):
    return Planner(((RowColumnHeads(4), backend), (Full(4), Segments())))(batch)


def tensors_of(batch):
    found = list(batch.tensors().values())
    map_tensors(batch.plan, found.append)
    return found


def assert_equal(got, expected):
    assert got.plan is None or got.plan.derived.keys() == expected.plan.derived.keys()
    assert got.example_ids == expected.example_ids
    for a, b in zip(tensors_of(got), tensors_of(expected), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.is_contiguous()
        assert torch.equal(a, b)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda one: type(one).__name__)
@given(batch=batches())
def test_a_batch_comes_out_as_it_went_in(backend, batch):
    batch = planned(batch, backend)
    arrived = pickle.loads(pickle.dumps(batch))
    assert_equal(arrived, batch)
    assert_equal(arrived._apply(torch.clone), batch)


def test_what_is_changed_after_the_journey_is_packed_again():
    batch = pickle.loads(pickle.dumps(planned(pad([one_table(np.random.default_rng(0), 3, 2, 2, 2)]), Segments())))
    kept = batch.keep(torch.tensor([[0, 2]]))
    assert_equal(pickle.loads(pickle.dumps(kept)), kept)
    part = pack_tensors((batch.input_ids[:, :2],))
    assert part.data.numel() == 64
    assert torch.equal(part.unpack()[0], batch.input_ids[:, :2])
