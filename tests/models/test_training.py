"""Every backend trains alike: the same losses, step after step."""

import numpy as np
import pytest
import torch
from batches import exact_backends, one_table, pad

from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.patterns import RowColumnHeads
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.mate import MateEncoder

SIZE = EncoderSize(16, 2, 4, 32)
STEPS = 50


def losses(backend):
    """Losses of learning which tokens lie in the second row, from random ids, on batches of all shapes."""
    random = np.random.default_rng(0)
    torch.manual_seed(0)
    model = MateEncoder(SIZE, attention=backend, vocab_size=50, hidden_dropout=0.0, attention_dropout=0.0)
    head = torch.nn.Linear(SIZE.hidden_size, 1)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=2e-3)
    found = []
    for _ in range(STEPS):
        tables = [one_table(random, *random.integers([0, 1, 1, 1], [9, 8, 5, 12])) for _ in range(2)]
        batch = pad(tables, extra=int(random.integers(3)))
        real = batch.attention_mask == 1
        logits = head(model(batch).states).squeeze(-1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits[real], (batch.row_ids[real] == 2).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return np.array(found)


@pytest.fixture(scope="module")
def expected():
    return losses(Eager())


def test_it_learns(expected):
    assert expected[-5:].mean() < 0.6 * expected[:5].mean()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("native", "segments") else pytest.mark.long)
        for name in exact_backends(RowColumnHeads(4))
        if name != "eager"
    ],
)
def test_same_losses(name, expected):
    np.testing.assert_allclose(losses(exact_backends(RowColumnHeads(4))[name]), expected, atol=1e-4)
