"""Memory of training by count: against what autograd keeps, against the documented table, and as advice."""

import sys
from pathlib import Path

import pytest
import torch
from golden import ROOT

from mate_cli.attention.base import AttentionBackend
from mate_cli.benchmark.cases import draw_table, together
from mate_cli.models.base.costs import TrainingMemory, training_memory
from mate_cli.models.base.sizes import SIZES, EncoderSize
from mate_cli.models.mate import MateEncoder

LARGE = TrainingMemory((SIZES["large"],) * 24, 336_203_776, 2048)
WIDTH, TOKENS = 128, 300


class _Kept(torch.autograd.Function):
    """Attention that keeps what a fused kernel keeps: its input, its output, and a number per token and head."""

    @staticmethod
    def forward(ctx, qkv):
        output = qkv.sum(1)
        ctx.save_for_backward(qkv, output, qkv.new_empty(len(qkv), qkv.shape[2], dtype=torch.float32))
        return output

    @staticmethod
    def backward(ctx, gradient):
        return gradient[:, None].expand(-1, 3, -1, -1)


class Fused(AttentionBackend):
    def forward(self, qkv, plan, key_bias=None, dropout=0.0):
        return _Kept.apply(qkv)


def kept_bytes(layers, *, half, checkpointing=False):
    """Bytes that autograd keeps for the backward pass of a network without dropout, weights left out."""
    size = EncoderSize(WIDTH, layers, 4, 4 * WIDTH)
    network = MateEncoder(size, attention=Fused(), hidden_dropout=0.0, gradient_checkpointing=checkpointing).train()
    batch = together([draw_table("tall", TOKENS, seed) for seed in range(2)])
    weights = {one.untyped_storage().data_ptr() for one in network.parameters()}
    found, kept = {}, []

    def pack(tensor):
        kept.append(tensor)
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights and tuple(tensor.shape) not in copies:
            found[storage.data_ptr()] = storage.nbytes()
        return tensor

    # Autocast's copies of weights, and the joint weights of queries, keys and values, count with the weights.
    shapes = {tuple(one.shape) for one in network.parameters() if one.ndim == 2} | {(3 * WIDTH, WIDTH)}
    copies = shapes | {shape[::-1] for shape in shapes}
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", torch.bfloat16, enabled=half):
        network(batch)
    return sum(found.values())


@pytest.mark.parametrize("half", [True, False], ids=["bfloat16", "float32"])
def test_a_layer_keeps_what_is_counted(half):
    measured = (kept_bytes(4, half=half) - kept_bytes(2, half=half)) / 2 / (2 * TOKENS)
    size = EncoderSize(WIDTH, 1, 4, 4 * WIDTH)
    dropped = 2 * WIDTH  # a byte for each number that dropout may drop, which CPUs keep otherwise
    counted = TrainingMemory((size,), 0, TOKENS, half=half).layer(size) - dropped
    assert measured == pytest.approx(counted, rel=0.01)


def test_checkpointing_keeps_the_states_between_layers():
    measured = (kept_bytes(4, half=True, checkpointing=True) - kept_bytes(2, half=True, checkpointing=True)) / 2
    assert measured / (2 * TOKENS) == pytest.approx(4 * WIDTH, rel=0.05)


def test_a_large_network_on_known_cards():
    assert LARGE.layer(SIZES["large"]) / 1024 == pytest.approx(38, rel=0.01)
    assert LARGE.total(16) / 1e9 == pytest.approx(38, abs=1)
    most = {card: LARGE.most_examples(card * 1e9) for card in (16, 24, 40, 80)}
    assert most[80] >= 16 > most[40] >= 8 > most[24] >= 4 > most[16] >= 2
    assert LARGE.with_checkpointing().most_examples(16e9) >= 16
    assert LARGE.most_examples(4e9) == 0


def test_it_is_read_off_a_network():
    for words, checkpointing in (({}, False), ({"gradient_checkpointing": True}, True)):
        network = MateEncoder("tiny", attention=Fused(), **words)
        found = training_memory(network, 7, 99, half=True)
        assert found == TrainingMemory((SIZES["tiny"],) * 2, 7, 99, checkpointing=checkpointing)
    from mate_cli.attention.backends.segments import Segments

    assert training_memory(MateEncoder("tiny", attention=Segments()), 7, 99, half=True).copies


def test_the_documented_table_is_this_count(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(Path(ROOT) / "tools"), *sys.path])
    from memory_table import table

    assert "\n".join(table()) in Path(ROOT, "docs", "memory_and_time.md").read_text()
