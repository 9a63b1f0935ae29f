import torch
from torch import nn

from mate_cli.models.base.table_encoder import INITIAL_DEVIATION, initialise


def test_new_weights_are_drawn_as_berts_within_two_deviations():
    torch.manual_seed(0)
    layer = nn.Linear(300, 300)
    initialise(layer)
    drawn = layer.weight.detach().abs()
    assert 1.95 * INITIAL_DEVIATION < drawn.max() <= 2 * INITIAL_DEVIATION == 0.04
    assert not layer.bias.any()
