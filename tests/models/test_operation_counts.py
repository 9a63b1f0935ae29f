"""Operations that the encoders dispatch: a GPU that waits for the processor is as fast as this number is small."""

from collections import Counter

import numpy as np
import pytest
import torch
from batches import one_table, pad
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import BertConfig, BertModel, TapasConfig, TapasModel

from mate_cli.attention.base import AttentionBackend
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.mate import MateEncoder
from mate_cli.models.tapas import Tapas

SHAPE = {"hidden_size": 32, "intermediate_size": 64}
BATCH = pad([one_table(np.random.default_rng(0), 4, 6, 3, 4)])


@torch.library.custom_op("mate_test::attention", mutates_args=())
def attention(qkv: torch.Tensor) -> torch.Tensor:
    return qkv.sum(1)


@torch.library.custom_op("mate_test::attention_backward", mutates_args=())
def attention_backward(gradient: torch.Tensor) -> torch.Tensor:
    return torch.stack([gradient] * 3, 1)


attention.register_autograd(lambda ctx, gradient: attention_backward(gradient))


class OneOperator(AttentionBackend):
    """Attention that is one operator, which is not counted."""

    def forward(self, qkv, plan, key_bias=None, dropout=0.0):
        return attention(qkv)


class CountOperations(TorchDispatchMode):
    """Counts operations that are neither views nor attention."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.counts[str(func)] += not func.is_view and "attention" not in str(func)
        return func(*args, **(kwargs or {}))


def encode(name, layers):
    """Return the parameters of a network and what computes its states."""
    if name in ("BertModel", "TapasModel"):
        config = {"BertModel": BertConfig, "TapasModel": TapasConfig}[name]
        theirs = {"num_hidden_layers": layers, "num_attention_heads": 4, "vocab_size": 50}
        network = {"BertModel": BertModel, "TapasModel": TapasModel}[name](config(**SHAPE, **theirs)).eval()
        return network, lambda: network(input_ids=BATCH.input_ids).last_hidden_state
    size = EncoderSize(num_layers=layers, num_heads=4, **SHAPE)
    network = {"mate": MateEncoder, "tapas": Tapas}[name](size, attention=OneOperator(), vocab_size=50).eval()
    batch = network.planner(BATCH)
    return network, lambda: network(batch).states


def count_pass(name, layers, autocast):
    """Count operations of a forward and a backward pass."""
    network, call = encode(name, layers)
    learned = [parameter for name, parameter in network.named_parameters() if not name.startswith("pooler")]
    with CountOperations() as forward, torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        states = call()
    gradient = torch.ones_like(states)
    with CountOperations() as backward:
        torch.autograd.grad(states, learned, gradient)
    return np.array([sum(mode.counts.values()) for mode in (forward, backward)])


def count_operations(name, autocast):
    """Count operations forward and backward: per layer, and outside of the layers."""
    one, two = (count_pass(name, layers, autocast) for layers in (1, 2))
    return two - one, 2 * one - two


@pytest.mark.parametrize("name", ["mate", "tapas"])
@pytest.mark.parametrize(("autocast", "limits"), [(False, (11, 18)), (True, (21, 30))])
def test_operations_of_encoders(name, autocast, limits):
    layer, outside = count_operations(name, autocast)
    assert (layer <= limits).all(), layer
    assert (outside <= (14, 6)).all(), outside
    for reference in ("BertModel", "TapasModel"):
        assert (layer <= count_operations(reference, autocast)[0]).all()
