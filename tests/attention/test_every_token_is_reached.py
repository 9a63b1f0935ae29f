"""The premise of theorem 1 of the MATE paper, by which its attention approximates what full attention does.

In every head each token sees itself and one token that all see and that sees all; so two layers join any two tokens.
"""

import pytest
import torch
from batches import batches
from hypothesis import assume, given

from mate_cli.attention.patterns import Full, RowColumnHeads, SameRowOrColumn, global_tokens


@pytest.mark.parametrize(
    "pattern",
    [RowColumnHeads(4), RowColumnHeads(3, 0.0), RowColumnHeads(3, 1.0), SameRowOrColumn(2), Full(2)],
    ids=repr,
)
@given(batches())
def test_each_token_sees_itself_and_one_that_all_see(pattern, batch):
    real, seen_by_all = batch.attention_mask == 1, global_tokens(batch)
    assume(seen_by_all.any(1).all())
    mask = pattern.mask(batch)
    both = real[:, None, :, None] & real[:, None, None, :]
    hub = seen_by_all.int().argmax(1)
    examples = torch.arange(len(hub))
    for head in range(mask.shape[1]):
        sees = mask[:, head]
        assert sees.diagonal(dim1=1, dim2=2)[real].all()
        assert sees[examples, :, hub][real].all()
        assert sees[examples, hub][real].all()
        two_layers = (sees.float() @ sees.float()) > 0
        assert two_layers[both[:, 0]].all()
