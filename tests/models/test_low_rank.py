"""Parameters that learn nothing, and adapters that learn in place of weights."""

import numpy as np
import pytest
import torch
from batches import one_table, pad
from torch import nn

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.errors import ConfigError
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.layers.low_rank import Lora, add_adapters, freeze, merge_adapters, merge_state
from mate_cli.models.mate import MateEncoder

SIZE = EncoderSize(16, 12, 2, 32, 128)


BATCH = pad([one_table(np.random.default_rng(0), *shape) for shape in ((4, 3, 3, 2), (2, 5, 2, 3))])


def network():
    torch.manual_seed(0)
    return MateEncoder(SIZE, attention=Sdpa(), vocab_size=50).eval()


def trained(model):
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize(
    ("patterns", "beginnings"),
    [
        ("encoder.layer.[0-3].*", [f"encoder.layer.{place}." for place in range(4)]),
        ("encoder.layer.1", ["encoder.layer.1."]),  # and neither 10 nor 11
        ("encoder.layer.1?", ["encoder.layer.10.", "encoder.layer.11."]),
        (["embeddings", "pooler.dense.bias"], ["embeddings.", "pooler.dense.bias"]),
        ("*.LayerNorm", ["LayerNorm"]),
        ([], []),
        (None, []),
    ],
)
def test_patterns_choose_modules_and_parameters(patterns, beginnings):
    model = network()
    freeze(model, patterns)
    names = {name for name, _ in model.named_parameters()}
    whole = "LayerNorm" if beginnings == ["LayerNorm"] else None
    expected = {n for n in names if (whole and whole in n) or any(n.startswith(one) for one in beginnings)}
    assert names - trained(model) == expected


@pytest.mark.parametrize(
    ("patterns", "near"),
    [
        ("encodr.layer.0", "'encodr.layer.0' matches no parameter. Near: encoder.layer.0"),
        (["embeddings", "poolr"], "'poolr' matches no parameter. Near: pooler"),
        ("", "'' matches no parameter. Near: embeddings"),
        ("encoder.layer.[", "'encoder.layer.[' matches no parameter"),
        ("encoder.layer.0.attention.self.queries", "Near: encoder.layer.0.attention.self.query"),
    ],
)
def test_a_pattern_that_matches_nothing_is_refused_with_near_names(patterns, near):
    with pytest.raises(ConfigError) as refused:
        freeze(network(), patterns)
    assert str(refused.value).startswith("model.freeze: ")
    assert near in str(refused.value)


def adapted(lora, loaded=None):
    model = network()
    add_adapters(model, lora, {n for n, _ in model.named_parameters()} if loaded is None else loaded)
    return model


@pytest.mark.parametrize("layers", [Lora.layers, "*.dense", ["encoder.layer.0.*", "pooler.dense"]])
def test_adapters_change_nothing_at_first_and_merge_into_what_they_learnt(layers):
    batch, model = BATCH, adapted(Lora(2, 6.0, layers))
    torch.testing.assert_close(model(batch).states, network()(batch).states, rtol=0, atol=1e-5)
    assert {name.rpartition(".")[2] for name in trained(model)} == {"lora_A", "lora_B"}
    model(batch).states.square().sum().backward()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("lora_B"):
                parameter.normal_(std=0.1)
    expected, output = model(batch), network()
    assert (expected.states - output(batch).states).abs().max() > 1e-3
    state = merge_state(model.state_dict(), Lora(2, 6.0).scale)
    assert state.keys() == output.state_dict().keys()
    output.load_state_dict(state)
    torch.testing.assert_close(output(batch).states, expected.states)
    torch.testing.assert_close(output(batch).pooled, expected.pooled)
    merge_adapters(model)
    assert all(torch.equal(one, state[name]) for name, one in model.state_dict().items())


def test_the_product_is_multiplied_by_alpha_over_rank():
    encoder = nn.Sequential(nn.Linear(3, 3))
    weight = encoder[0].weight.detach().clone()
    add_adapters(encoder, Lora(rank=4, alpha=6.0, layers="0"), {"0.weight", "0.bias"})
    layer = encoder[0]
    nn.init.normal_(layer.lora_B)
    merge_adapters(encoder)
    torch.testing.assert_close(encoder[0].weight - weight, 1.5 * layer.lora_B @ layer.lora_A)


def test_weights_that_are_new_learn_beside_adapters():
    names = {n for n, _ in network().named_parameters()}
    new = {"embeddings.token_type_embeddings_1.weight"}
    model = adapted(Lora(2), names - new)
    assert {name for name in trained(model) if "lora_" not in name} == new


def test_frozen_adapters_learn_nothing():
    model = adapted(Lora(2))
    freeze(model, "encoder.layer.[0-9]")
    assert {name.split(".")[2] for name in trained(model)} == {"10", "11"}


@pytest.mark.parametrize(
    ("lora", "loaded", "problem"),
    [
        (Lora(2, layers="*.self.queries"), None, "model.lora.layers: '*.self.queries' matches no parameter. Near: "),
        (Lora(2), set(), "model.lora.rank: adapters need loaded weights"),
    ],
)
def test_adapters_that_would_do_nothing_are_refused(lora, loaded, problem):
    with pytest.raises(ConfigError) as refused:
        adapted(lora, loaded)
    assert problem in str(refused.value)
