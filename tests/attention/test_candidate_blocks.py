"""Candidates side by side: none sees another."""

import numpy as np
import torch
from batches import batch_from, batches
from hypothesis import given

from mate_cli.attention.patterns import CandidateBlocks


def test_who_sees_whom():
    """Two candidates of two tokens and one, then padding."""
    batch = batch_from([[1, 1, 2, 0]], np.ones((1, 4)), [[1, 0, 1, 0]], [[1, 1, 1, 0]])
    mask = CandidateBlocks(4).mask(batch)
    assert mask.shape == (1, 1, 4, 4)
    assert mask[0, 0].int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 0]]


@given(batch=batches())
def test_the_segments_say_the_same(batch):
    pattern = CandidateBlocks(2)
    assert not pattern.global_tokens(batch).any()
    ids, real = pattern.segment_ids(batch)[0], batch.attention_mask == 1
    expected = (ids[:, :, None] == ids[:, None, :]) & real[:, None, :]
    assert torch.equal(pattern.mask(batch)[:, 0][real], expected[real])
