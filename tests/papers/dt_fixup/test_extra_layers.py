"""Layers that are added to a network: what they begin with, what the data change, and what stays as it is."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from batches import one_table, pad
from golden import others

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.base import Attention
from mate_cli.attention.patterns import Full
from mate_cli.errors import ConfigError
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.candidates import Candidates
from mate_cli.models.initialization.initial_weights import Initializer, LoadReport
from mate_cli.models.layers.encoder import LayerSpec
from mate_cli.models.mate import MateEncoder
from mate_cli.models.tapas import Tapas
from mate_cli.papers.dt_fixup.models import schemes
from mate_cli.papers.dt_fixup.models.extra import Extra, ExtraLayers
from mate_cli.papers.dt_fixup.models.schemes import (
    SCHEMES,
    evaluation_mode,
    mu_of,
    relational_factor,
    scaled_weights,
    t_fixup_factor,
    vanilla_factor,
)

SIZE = EncoderSize(32, 2, 4, 64, 64)
EXTRA = Extra(layers=3, heads=8, inner=48, input_dropout=0.4)
SCALED = ("attention.self.value", "attention.output.dense", "intermediate.dense", "output.dense")


class Random(Initializer):
    def load(self, encoder, task=None):
        return LoadReport(new=tuple(encoder.state_dict()))


def network(extra=EXTRA, cls=Tapas, **options):
    torch.manual_seed(0)
    return cls(SIZE, attention=Sdpa(), vocab_size=50, extra=extra, **options)


def tables(count=5):
    random = np.random.default_rng(0)
    batch = pad([one_table(random, 3 + i, 2, 3, 2) for i in range(count)])
    words = torch.randint(1, 50, batch.input_ids.shape, generator=torch.Generator().manual_seed(0))
    return replace(batch, input_ids=words * batch.attention_mask)


def in_batches(batch, size):
    every = [slice(start, start + size) for start in range(0, len(batch.input_ids), size)]
    return [replace(batch, **{name: tensor[some] for name, tensor in batch.tensors().items()}) for some in every]


def prepared(scheme, **options):
    model = network(replace(EXTRA, scheme=scheme, **options))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    said = Random().prepare(model, [tables()], LoadReport())
    return model, before, said


def test_factors_are_those_of_the_original_optimiser():
    for case in json.loads(others("dtfixup_scale_factors.json").read_text())["factors"]:
        mu, layers = case["mu"], case["N"]
        assert relational_factor(mu, layers) == pytest.approx(1 / case["divisor_measured"], rel=1e-6)
        assert vanilla_factor(mu, layers) == pytest.approx(case["vanilla_factor"], rel=1e-9)
        assert t_fixup_factor(layers) == pytest.approx(case["tfixup_encoder_factor"], rel=1e-9)


@pytest.mark.parametrize("scheme", ["dt_fixup", "t_fixup"])
def test_four_matrices_of_every_new_layer_are_scaled_and_nothing_else(scheme):
    model, before, said = prepared(scheme)
    mu = mu_of(model, [tables()])
    factor = vanilla_factor(mu, 3) if scheme == "dt_fixup" else t_fixup_factor(3)
    assert f"factor {factor:.3g}" in said[scheme]
    for name, tensor in model.state_dict().items():
        scaled = name.startswith("extra.encoder.layer.") and name.removesuffix(".weight").endswith(SCALED)
        scaled = scaled and name.endswith(".weight")
        torch.testing.assert_close(tensor, before[name] * factor if scaled else before[name], rtol=1e-6, atol=0)
    assert sum(len(scaled_weights(layer)) for layer in model.extra.encoder.layers) == 3 * 4


class Relating(Attention, torch.nn.Module):
    """Attention as ever, with a table of relations that values have."""

    def __init__(self, size):
        super().__init__()
        self.plain, self.values = Sdpa(), torch.nn.Parameter(torch.empty(5, size.head_size))

    def count_operations(self, plan):
        return self.plain.count_operations(plan)

    def value_tables(self):
        return (self.values,)

    def forward(self, qkv, plan, key_bias=None, dropout=0.0):
        return self.plain.forward(qkv, plan, key_bias, dropout)


def test_layers_with_relations_have_the_relational_factor_and_their_tables_are_scaled():
    made = ExtraLayers(EXTRA, 32, lambda size: LayerSpec(Full(size.num_heads), Relating(size)))
    before = [layer.spec.backend.values.detach().clone() for layer in made.encoder.layers]
    assert len({float(table.sum()) for table in before}) == 3
    assert {tuple(table.shape) for table in before} == {(5, 4)}
    assert before[0].std() == pytest.approx((2 / (5 + 4)) ** 0.5, rel=0.5)
    SCHEMES["dt_fixup"].apply(made.encoder.layers, [10.0])
    for layer, table in zip(made.encoder.layers, before, strict=True):
        torch.testing.assert_close(layer.spec.backend.values.detach(), table * relational_factor(10, 3))


def test_queries_keys_and_values_are_drawn_as_three_matrices():
    torch.manual_seed(3)
    made = ExtraLayers(EXTRA, 32, lambda size: LayerSpec(Full(size.num_heads), Sdpa())).state_dict()
    attention = "encoder.layer.0.attention.self"
    for name in ("query", "key", "value"):
        assert made[f"{attention}.{name}.weight"].std() == pytest.approx((2 / (32 + 32)) ** 0.5, rel=0.06)
        assert 0 < made[f"{attention}.{name}.bias"].abs().max() <= 32**-0.5
    assert made["encoder.layer.0.output.dense.weight"].std() == pytest.approx((2 / (32 + 48)) ** 0.5, rel=0.06)


def test_norms_are_where_the_scheme_wants_them_and_others_do_not_exist():
    def norms(**options):
        names = network(replace(EXTRA, **options)).extra.state_dict()
        return sum("LayerNorm.weight" in name for name in names), "LayerNorm.weight" in names

    assert norms(scheme="dt_fixup") == norms(scheme="t_fixup") == (0, False)
    assert norms(scheme="standard") == norms(scheme="standard", norm="pre") == norms(scheme="admin") == (7, True)
    with pytest.raises(ConfigError, match="keeps the norms"):
        network(replace(EXTRA, scheme="admin", norm="none"))


def test_pre_and_no_norm_follow_their_formulas():
    model, batch = network(replace(EXTRA, scheme="standard", norm="pre", layers=1)).eval(), tables()
    layer, plans = model.extra.encoder.layers[0], model.plans(batch)
    states = torch.randn(sum(batch.packing.lengths), 32)
    attend = lambda x: layer.attention["self"](x, plans[layer.spec.pattern], None)  # noqa: E731

    def feed(x):
        return layer.output.dense(layer.activation(layer.intermediate["dense"](x)))

    middle = states + layer.attention["output"].dense(attend(layer.attention["output"].LayerNorm(states)))
    expected = middle + feed(layer.output.LayerNorm(middle))
    torch.testing.assert_close(layer(states, plans[layer.spec.pattern], None), expected)

    layer = network(replace(EXTRA, layers=1)).eval().extra.encoder.layers[0]
    middle = states + layer.attention["output"].dense(attend(states))
    torch.testing.assert_close(layer(states, plans[layer.spec.pattern], None), middle + feed(middle))


def test_admin_weighs_by_what_was_added_before():
    model, _, said = prepared("admin", layers=2)
    ends = [end for layer in model.extra.encoder.layers for end in layer.sub_layers]
    omegas = [end.omega.detach() for end in ends]
    assert said["admin"] == f"omega {omegas[0][0]:.3g} to {omegas[-1][0]:.3g}"
    assert all((omega == omega[0]).all() for omega in omegas)
    assert torch.stack([omega[0] for omega in omegas]).diff().min() > 0
    batch = tables()
    with evaluation_mode(model):
        (inputs,) = model.extra_inputs(batch)
    assert omegas[0][0] ** 2 == pytest.approx(inputs.var(-1, correction=0).mean().item(), rel=1e-5)


def test_admins_omega_is_the_root_of_the_variances_before(monkeypatch):
    """Liu et al. 2020: omega_i^2 is the sum of the variances of the input and of what sub-layers 1 to i-1 add."""
    monkeypatch.setattr(schemes, "_variances", lambda *_: [4.0, 5.0, 7.0, 9.0, 1.0])
    assert SCHEMES["admin"].measure(None, [], []) == [2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("source", ["pre_map", "input"])
def test_mu_is_the_largest_norm_however_it_is_batched(source):
    model, batch = network(replace(EXTRA, width=16, mu_source=source)).train(), tables()
    torch.nn.init.uniform_(model.encoder.layers[-1].output.LayerNorm.weight)  # without it all norms are equal
    with evaluation_mode(model):
        states = model.encoder(model.embeddings(batch), model.plans(batch))
        states = states if source == "pre_map" else model.extra.into(states)
        expected = states.norm(dim=-1).max().item()
    assert model.training
    found = [mu_of(model, in_batches(batch, size)) for size in (1, 2, 5)]
    assert found == pytest.approx([expected] * 3, rel=1e-5)
    norms = [mu_of(model, [one]) for one in in_batches(batch, 1)]
    assert max(norms) == pytest.approx(expected, rel=1e-5)
    assert min(norms) < expected


def test_layers_that_were_loaded_are_left_alone_and_the_first_process_decides():
    model = network()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    loaded = LoadReport(loaded=tuple(name for name in before if name.startswith("extra.")))
    assert Random().prepare(model, [tables()], loaded) == {}
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    factor = vanilla_factor(10, 3)
    fewer = LoadReport(loaded=tuple(name for name in loaded.loaded if ".layer.2." not in name))
    assert Random().prepare(model, iter([]), fewer, lambda measure: [10.0]) == {
        "dt_fixup": f"mu 10, factor {factor:.3g}"
    }
    changed = [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])]
    assert sorted(name.removeprefix("extra.encoder.layer.2.") for name in changed) == sorted(
        f"{one}.weight" for one in SCALED
    )


@pytest.mark.parametrize("cls", [Tapas, MateEncoder, Candidates])
def test_states_have_the_width_of_the_network_and_all_parts_know_the_layers(cls):
    model, plain, batch = network(replace(EXTRA, width=16), cls), network(None, cls), tables()
    assert model.eval()(batch).states.shape == (*batch.input_ids.shape, 32)
    assert len(model.specs) == len(plain.specs) + 3
    shared = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("extra.")}
    assert shared.keys() == plain.state_dict().keys()
    assert all(torch.equal(tensor, plain.state_dict()[name]) for name, tensor in shared.items())


def test_checkpointing_reaches_them(monkeypatch):
    calls = []
    monkeypatch.setattr(
        "mate_cli.models.layers.encoder.checkpoint", lambda layer, *given, **_: calls.append(layer) or layer(*given)
    )
    model = network(gradient_checkpointing=True)
    model(tables())
    assert calls == model.layers


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="unknown scheme 'fixup'"):
        network(replace(EXTRA, scheme="fixup"))
    with pytest.raises(ConfigError, match="cannot be divided into 5 heads"):
        network(replace(EXTRA, heads=5))
